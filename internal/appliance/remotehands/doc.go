// SPDX-License-Identifier: Apache-2.0

// Package remotehands is for the person who stands beside a router that somebody far
// away has to mend: hold a key at boot, pull the stick, mail the file on it.
//
// Watch looks for the key on the consoles while the router boots. Save writes a file
// to the FAT partition that any PC can read: the image's own, or one of that label on
// any other stick. Like on a router's medium in general nothing may be half-written
// there, and it must not fill up.
package remotehands
