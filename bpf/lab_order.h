// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What user space asks of generate and replay, and how far they are. Every
// generator is loaded for itself and runs on one core at a time, so nothing here
// has two writers. User space writes order, routes and progress while the
// program does not run, and reads progress and routes at any time.
#pragma once

#define ROUTES 256 // one per id of a stream

// Host byte order.
struct order {
	__u64 interval;	   // ns << 16 between two frames; 0 is as fast as it goes
	__u64 burst;	   // ns of unused time that may be caught up
	__u64 gap;	   // ns: longer stretches without a chance to send are counted; 0 counts none
	__u64 frames;	   // stop after so many; 0 is no limit
	__u64 duration;	   // ns: stop after so long; 0 is no limit
	__u64 period;	   // ns from one lap to the next of a replay in its own time
	__u32 packets;	   // of the lap
	__u8 own;	   // a replay keeps the time of its frames
	__u8 ttl;
	__u8 timed;	   // read the clock for every frame
	__u8 filled;	   // write the filler, and a UDP checksum in IPv4 too
	__u8 fresh;	   // change source ports and hosts from lap to lap:
	__u8 port_shift;   // the number of the lap goes into these bits of the port,
	__u8 port_bits;
	__u8 host_shift;   // what does not fit goes into these of the last 16 of the address,
	__u8 host_bits;
	__u8 scatter;	   // or, where few bits are free, it is scattered over the last port_bits and 16
	__u8 _pad[2];
};

// Where a stream's frames go.
struct route {
	__u32 ifindex;
	__u8 macs[12]; // destination, source
	__u64 next;    // the stream's id in the first byte, the next sequence number in the others
};

struct progress {
	__u64 frames; // sent
	__u32 at;     // next packet of the lap
	__u32 lap;    // laps done
	__u16 port_flip; // what this lap changes; network byte order
	__u16 host_flip;
	__u16 over;   // nothing more will be sent
	__u16 resumed; // set by user space before the program runs on: the time since it last ran does not exist
	__u64 first;  // ns: first frame
	__u64 last;   // ns: reading of the clock for the last frame
	__u64 due;    // ns << 16 since first: when the next paced frame may go
	__u64 ran;    // ns: when the program last had a chance to send
	__u64 clean_frames; // frames and time outside gaps (unpaced)
	__u64 clean_ns;
	__u64 gaps;
	__u64 gap_ns;
};

struct order order;
struct route routes[ROUTES];
struct progress progress;
