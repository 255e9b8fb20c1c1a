// SPDX-License-Identifier: Apache-2.0

// Package paper repeats experiments of the papers that Minne stands on, and puts
// the paper's figure beside the measured one.
//
// A Preset is one experiment. It says what of its figures may be compared with
// the paper's and what may not: the papers measured computers of 2001 to 2010
// with network cards between other computers, the lab measures namespaces of one
// computer, joined by veth pairs. So absolute rates are never a comparison of
// routers; shapes and ratios often are, and each preset says which.
//
// A paper's figure is in PaperRow.Paper when the paper prints a number, and
// PaperRow.PaperSays has its words when it doesn't: many of the figures are graphs
// whose numbers are not in the text. All rows of a preset are in the result from
// the beginning and say that they are not measured yet, so that an interrupted run
// leaves a report that tells what it lacks.
//
// What is measured stands in the result's ordinary sections, too (MRR,
// Comparisons, Soak), with every trial.
package paper
