// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// When the next frame may go. A paced program that is too early drops its frame
// and is called again at once: so a batch of frames is never held up by one that
// must wait, and the first in a batch waits no longer than the batch takes.
#pragma once

#define STRETCH 64 // unpaced frames between two readings of the clock
#define FRACTION 16 // bits behind the point of times in ns

// clock reads the time. One call of the kernel ends after 2^32 runs of the program, so
// long orders take several, which is no fault of the machine: the pause between two
// is taken out of the order's time, as if all had begun later.
static __always_inline __u64 clock(void)
{
	__u64 now = bpf_ktime_get_ns(), pause;

	if (progress.resumed) {
		progress.resumed = 0;
		pause = now - progress.ran;
		if (progress.first) {
			progress.first += pause;
			progress.last += pause;
			progress.ran = now;
		}
	}
	return now;
}

static __always_inline void interrupted(__u64 took)
{
	progress.gaps++;
	progress.gap_ns += took;
}

// As fast as it goes: the clock is read once in a stretch, and stretches during
// which the core was taken away are put aside.
static __always_inline __u64 unpaced(void)
{
	__u64 now, took;

	if (progress.frames % STRETCH && !order.timed)
		return progress.last;
	now = clock();
	progress.last = now;
	if (progress.frames % STRETCH)
		return now;
	took = now - progress.ran;
	if (!progress.first) {
		progress.first = now;
	} else if (order.gap && took > order.gap) {
		interrupted(took);
	} else {
		progress.clean_frames += STRETCH;
		progress.clean_ns += took;
	}
	progress.ran = now;
	if (order.duration && now - progress.first >= order.duration) {
		progress.over = 1;
		return 0;
	}
	return now;
}

// Counts the time since a frame was due or the program last ran, whichever is later.
static __always_inline void look_for_gap(__u64 now)
{
	__u64 could = progress.first + (progress.due >> FRACTION);

	if (could < progress.ran)
		could = progress.ran;
	if (order.gap && now > could && now - could > order.gap)
		interrupted(now - could);
	progress.ran = now;
}

// Frames that the last reading of the clock already allowed go without another one.
static __always_inline __u64 paced(void)
{
	__u64 since = (progress.last - progress.first) << FRACTION, now = progress.last;

	if (order.timed || !progress.first || since < progress.due || progress.frames % STRETCH == 0) {
		now = clock();
		if (!progress.first)
			progress.first = progress.ran = now;
		look_for_gap(now);
		since = (now - progress.first) << FRACTION;
		if (order.duration && now - progress.first >= order.duration + order.burst) {
			progress.over = 1;
			return 0;
		}
		if (since < progress.due)
			return 0;
		progress.last = now;
	}
	if (progress.due + (order.burst << FRACTION) < since) // give up what is beyond the burst
		progress.due = since - (order.burst << FRACTION);
	progress.due += order.interval;
	return now;
}

// gate returns the time (ns) of the frame about to be sent, or 0 when none may be.
static __always_inline __u64 gate(void)
{
	if (progress.over)
		return 0;
	if (order.frames && progress.frames >= order.frames) {
		progress.over = 1;
		return 0;
	}
	return order.interval || order.own ? paced() : unpaced();
}
