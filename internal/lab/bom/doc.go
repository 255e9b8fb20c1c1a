// SPDX-License-Identifier: Apache-2.0

// Package bom reads a sheet of a router's parts and tells what it takes and what it costs: watts,
// watt-hours a day, price, price of a port, watts of a million packets a second, and for a router away
// from the grid the battery, the solar panel and the cables.
//
// A sheet is a YAML file (schema.go), read as strictly as the router's own. Compute is a pure
// function from a Sheet to a Result. Every figure of the Result that is more than a sum comes as a Step: the
// formula, the same with the numbers put in, and whose it is. What the sheet doesn't say is never made up
// silently: a default stands among the assumptions, a part without watts or price makes the sum an "at least".
package bom
