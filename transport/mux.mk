# SPDX-License-Identifier: BSD-3-Clause
libmptransport_la_SOURCES += \
	transport/chunk.c transport/chunk.h \
	transport/flow.c transport/flow.h \
	transport/frame.c transport/frame.h \
	transport/marks.c transport/marks.h \
	transport/merge.c transport/merge.h \
	transport/mux.c transport/mux.h \
	transport/mux-event.c \
	transport/mux-internal.h \
	transport/mux-receive.c \
	transport/mux-send.c \
	transport/mux-take.c \
	transport/mux-turn.c \
	transport/piece.c transport/piece.h \
	transport/sched.c transport/sched.h \
	transport/window.c transport/window.h \
	$(NULL)
