// SPDX-License-Identifier: BSD-3-Clause
/* Prints the sample configuration: "make update-sample" runs it. */
#include <stdio.h>

#include "conf/conf.h"

int main(void)
{
    conf_sample(stdout);
    return fflush(stdout) ? 1 : 0;
}
