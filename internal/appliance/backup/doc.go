// SPDX-License-Identifier: Apache-2.0

// Package backup is a router in one file: its configuration with the files beside it
// (secrets, lists that the firewall names, the host key of the login), the
// configurations that it has had, the ports that it ran on, and what hosts count on
// (DHCP leases, live elements of sets).
//
// The file is a gzipped tar archive, all of it encrypted with a passphrase by age
// (age-encryption.org/v1). So it can lie on any stick or share, nobody changes a line
// of it unnoticed, and it can be opened without Minne:
//
//	age -d router.backup | tar xz
//
//	backup.json       what it is: format, version, date, host, ports
//	running.yaml      the configuration in use
//	revisions.json    earlier configurations
//	live.json         DHCP leases, and what minne set add put into sets
//	files/…           what lies beside the configuration, by its path there
//
// What is read is bounded in size and number and checked as a whole before anything
// of it is used. A port of the backup finds its link on another machine by package
// backup's Propose and the operator; Remap writes that into the configuration.
package backup
