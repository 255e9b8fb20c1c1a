// SPDX-License-Identifier: Apache-2.0

// Package routing runs the routing protocols: it renders FRR's configuration,
// supervises FRR's daemons and reads back what they know.
//
// # How FRR is driven
//
// Every FRR daemon serves a unix socket (/run/frr/<pathspace>/<daemon>.vty) that
// takes one command at a time and answers with text and a return code. This package
// talks to those sockets itself instead of starting vtysh: a command costs a
// round trip of some 50 µs, an error names exactly the line that was refused, and
// each daemon is compared and restarted alone. The same lines, joined, are written to
// /etc/frr/<pathspace>/frr.conf, so that an operator's "vtysh -N <pathspace>" shows the usual picture.
//
// # Reload by difference
//
// Render writes the configuration in the form in which "show running-config" prints it,
// defaults left out. Apply asks each daemon for its running configuration, parses both into
// a tree of contexts and lines (see tree.go), and sends only the commands that
// turn one into the other (see diff.go). Afterwards it asks again and fails with the lines
// that did not take. An unchanged configuration therefore costs zero commands, whoever
// changed what behind our back.
//
// # Life of the daemons
//
// The daemons are no children of ours: they daemonise, and outlive a crash or an upgrade of
// the process that started them. A later process adopts them by pid file,
// after checking command line and network namespace, and notices their end by a pidfd.
//
// Protocol daemons start behind a zebra that answers (see supervise.go). When one dies, zebra keeps its
// routes in the kernel (graceful restart; for OSPF see hold.go); when zebra dies, its successor starts with -K
// and leaves the routes it finds in the kernel alone until the protocols have confirmed them. What neighbours
// notice is told in docs/design/routing.md.
package routing
