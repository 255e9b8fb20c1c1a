// SPDX-License-Identifier: Apache-2.0

// Package native runs minne-procbench, the C program that measures table searches outside the kernel, on
// the machine that minne runs on. The program for that architecture is part of minne: `make generate` compiles
// it and writes the file that embeds it. A minne that was built without it says so (ErrNotEmbedded).
//
// It is executed from memory, so nothing is left on a disk.
package native
