// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The byte order that a program is compiled for. The machine's own header of this name, which the kernel's
// headers include for their bit fields (version and length of an IP header, flags of TCP), says what the
// machine has that compiles.

#pragma once

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#include <linux/byteorder/big_endian.h>
#else
#include <linux/byteorder/little_endian.h>
#endif
