// SPDX-License-Identifier: BSD-3-Clause
/* migproxy: the daemon's command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf.h"
#include "config.h"
#include "proxy/conf-check.h"
#include "proxy/daemon.h"
#include "transport/tls.h"
#include "transport/wire.h"
#include "util/log.h"

enum {
    EXIT_USAGE = 2, /* usage or configuration */
};

static void usage(FILE *out)
{
    fprintf(out,
            "usage: migproxy [--config FILE] [--log-level LEVEL]\n"
            "       migproxy --check-config [--config FILE]\n"
            "\n"
            "Carries live migrations of QEMU guests to other hosts.\n"
            "\n"
            "  --config FILE         default %s\n"
            "  --check-config        read the configuration and the "
            "certificates, look at what they\n"
            "                        name on this host, say what is wrong, "
            "end\n"
            "  --sample-config       print a commented configuration, end\n"
            "  --print-capabilities  print what this program can do (JSON), "
            "end\n"
            "  --log-level LEVEL     error, warning, info or debug; overrides "
            "the configuration\n"
            "  -h, --help            this text and the configuration's "
            "options\n"
            "  --version\n"
            "\n"
            "Exit status: 0 success, 1 failure, 2 usage or configuration.\n",
            CONF_DEFAULT_FILE);
}

static void print_capabilities(void)
{
    printf("{\"program\":\"migproxy\",\"version\":\"%s\","
           "\"protocol_versions\":[%d,%d],"
           "\"features\":[\"precopy\",\"postcopy\",\"postcopy-preempt\","
           "\"multifd-precopy\",\"tls1.3-mutual\",\"api-unix\"]}\n",
           PACKAGE_VERSION, WIRE_VERSION_MIN, WIRE_VERSION_MAX);
}

struct options {
    const char *config;
    const char *log_level;
    bool check;
};

/* What is said twice is not guessed at. False: said so. */
static bool set_once(const char **value, const char *name, const char *text)
{
    if (*value) {
        fprintf(stderr, "migproxy: --%s: given twice, \"%s\" and \"%s\"\n",
                name, *value, text);
        return false;
    }
    *value = text;
    return true;
}

/* -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct options *ret)
{
    enum { CONFIG = 256, CHECK, SAMPLE, CAPABILITIES, LEVEL, VERSION_OPTION };
    static const struct option options[] = {
        {"config", required_argument, NULL, CONFIG},
        {"check-config", no_argument, NULL, CHECK},
        {"sample-config", no_argument, NULL, SAMPLE},
        {"print-capabilities", no_argument, NULL, CAPABILITIES},
        {"log-level", required_argument, NULL, LEVEL},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, VERSION_OPTION},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case CONFIG:
            if (!set_once(&ret->config, "config", optarg)) {
                return EXIT_USAGE;
            }
            break;
        case CHECK:
            ret->check = true;
            break;
        case LEVEL:
            if (!set_once(&ret->log_level, "log-level", optarg)) {
                return EXIT_USAGE;
            }
            break;
        case SAMPLE:
            conf_sample(stdout);
            return EXIT_SUCCESS;
        case CAPABILITIES:
            print_capabilities();
            return EXIT_SUCCESS;
        case VERSION_OPTION:
            printf("migproxy %s\n", PACKAGE_VERSION);
            return EXIT_SUCCESS;
        case 'h':
            usage(stdout);
            printf("\n");
            conf_help(stdout);
            return EXIT_SUCCESS;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "migproxy: \"%s\": no such argument\n", argv[optind]);
        usage(stderr);
        return EXIT_USAGE;
    }
    return -1;
}

static void warn_cb(const char *text)
{
    fprintf(stderr, "migproxy: warning: %s\n", text);
}

static int check(struct conf *conf, const char *file)
{
    struct error err = ERROR_INIT;
    struct tls *tls = conf_check_tls(conf, &err);
    int status = EXIT_SUCCESS;

    if (tls && !conf_check_start(conf, &err)) {
        conf_check_warn(conf, warn_cb);
        conf_check_warn_peers(conf, warn_cb);
        printf("%s: good; %zu peer%s\n", file, conf->peer_count,
               conf->peer_count == 1 ? "" : "s");
    } else {
        fprintf(stderr, "migproxy: %s\n", err.text);
        status = EXIT_USAGE;
    }
    tls_unref(tls);
    conf_free(conf);
    return status;
}

/* Whether fd is the journal's stream (systemd.exec(5), $JOURNAL_STREAM): the
 * variable is inherited by processes whose output goes elsewhere. */
static bool is_journal(int fd)
{
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return text && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
           !fstat(fd, &st) && st.st_dev == device && st.st_ino == inode;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct error err = ERROR_INIT;
    int status = parse_options(argc, argv, &options);
    enum log_level level = LOG_LEVEL_INFO;

    if (status >= 0) {
        return status;
    }
    if (options.log_level && !log_parse_level(options.log_level, &level)) {
        fprintf(stderr,
                "migproxy: --log-level: \"%s\" is not one of error, warning, "
                "info, debug\n",
                options.log_level);
        return EXIT_USAGE;
    }
    if (!options.config) {
        options.config = CONF_DEFAULT_FILE;
    }
    struct conf *conf = conf_load(options.config, &err);
    if (!conf) {
        fprintf(stderr, "migproxy: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (options.check) {
        return check(conf, options.config);
    }
    if (!options.log_level) {
        level = (enum log_level)conf->log_level;
    }
    log_set_level(level);
    log_set_journal(is_journal(STDERR_FILENO));
    if (daemon_run(conf, options.config, options.log_level != NULL, &err)) {
        fprintf(stderr, "migproxy: %s\n", err.text);
        return err.code == ERR_TLS || err.code == ERR_CONFIG ? EXIT_USAGE
                                                             : EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
