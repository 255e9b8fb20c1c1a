// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Reference returns the page about rules as Markdown, made of the parser's own tables.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("\n## Protocols\n\n| word | meaning |\n|---|---|\n")
	for _, w := range words(protocolWords) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", w, protocolWords[w].meaning)
	}
	b.WriteString("| 0 to 255 | the IP protocol of that number |\n\n## Services\n\nNames of ports:")
	byPort := words(serviceWords)
	slices.SortStableFunc(byPort, func(a, b string) int { return int(serviceWords[a]) - int(serviceWords[b]) })
	for i, w := range byPort {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " `%s` %d", w, serviceWords[w])
	}
	b.WriteString(".\n\n## ICMP types\n\n| type | `icmp` | `icmpv6` |\n|---|---|---|\n")
	names := words(icmpWords[protoICMP])
	for _, w := range words(icmpWords[protoICMPv6]) {
		if !slices.Contains(names, w) {
			names = append(names, w)
		}
	}
	slices.Sort(names)
	number := func(protocol uint8, name string) string {
		if n, ok := icmpWords[protocol][name]; ok {
			return fmt.Sprint(n)
		}
		return ""
	}
	for _, w := range names {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", w, number(protoICMP, w), number(protoICMPv6, w))
	}
	fmt.Fprintf(&b, "\n## Rules as a table\n\nA `rules-file` is CSV (RFC 4180). Its first line names the columns: %s. Only the first two are needed; an empty source or destination is `any`. Lines that begin with # are comments. Each line is the rule that its cells make, in this order:\n\n"+
		"```csv\n%s\npermit,tcp,any,,@web,\"80,443\",name web\npermit,udp,@noc,,self,161,limit 100/s\ndeny,any,any,,any,,log\n```\n", "`"+strings.Join(csvColumns, "`, `")+"`", strings.Join(csvColumns, ","))
	return b.String()
}

const referenceHead = `# Firewall rules

This page is generated from the tables in the source (go test ./internal/model/policy -run
TestReference -update). The guide is [firewall.md](../guides/firewall.md); the keys
around the rules are in [config.md](config.md).

## Grammar

Parts in brackets are optional and are left out from the right. ` + "`{}`" + ` means any number of times.

` + "```" + `text
rule        = action protocol [source ["from" ports] [destination [ports | type]]] {option}
action      = "permit" | "deny" | "reject"
source      = addresses
destination = addresses
addresses   = "any" | "self" | address {"," address}
address     = an IP address | a prefix | "@" set
ports       = port {"," port}
port        = a number | a range as 8000-8080 | a service | "@" set
type        = an ICMP type {"," an ICMP type}
option      = "log" [text] | "limit" number "/" ("s" | "m" | "h" | "d") ["burst" number] | "name" text | "schedule" schedule
text        = a word, or words in double quotes; after log always in quotes
` + "```" + `

| rule | meaning |
|---|---|
| ` + "`permit tcp any @web 80,443`" + ` | everybody may connect to the hosts of the set web on these ports |
| ` + "`permit udp @noc self 161 limit 100/s`" + ` | the hosts of noc may query the router itself by SNMP, at most 100 new requests a second |
| ` + "`permit tcp any from 1024-65535 192.0.2.7 ssh`" + ` | the source port must match too |
| ` + "`reject tcp any any smtp name \"no mail\"`" + ` | the sender gets an error at once and need not wait for a timeout |
| ` + "`deny udp any any schedule lessons`" + ` | no UDP during the schedule lessons |
| ` + "`deny any log`" + ` | everything else is dropped, and at most ten packets a second are logged |

## Meaning

- For each packet, the policies of its zone pair are searched in the order of the file. The first
  rule that matches decides.
- ` + "`permit`" + ` passes the packet. In a stateful policy it also passes the rest of the connection:
  replies, later packets, and ICMP errors about it. ` + "`deny`" + ` drops silently. ` + "`reject`" + ` drops and
  sends an error to the sender: a reset for TCP, ICMP for the rest. The kernel sends errors only for
  protocols whose checksum it knows.
- ` + "`self`" + ` is the router. As the destination it makes a rule for packets to the router, as the source
  a rule for packets that the router sends, whatever the policy's other zone is.
- Rules see addresses after destination NAT (port forwards, one-to-one) and before source NAT
  (masquerade, pools, one-to-one): the addresses of the inside hosts.
- A rule with addresses of one family applies to that family only. ` + "`any`" + ` means both.
- ` + "`limit`" + ` is a rate limit of all senders together: above it, the rule denies. In a stateful policy
  it counts new connections. ` + "`burst`" + ` (default 5) is how many may come at once.
- ` + "`log`" + ` writes at most ten packets a second of the rule to the kernel's log, with the given text,
  or else the rule's name or number.
- ` + "`schedule`" + ` makes the rule apply only during that entry of ` + "`firewall.schedules`" + `. When it ends,
  the connections that the rule permitted end too.
- Every rule counts its packets and bytes: ` + "`minne show firewall`" + `.
- When neither a rule nor the ` + "`default`" + ` of a policy decides, the next policy of the same zone pair
  does, and in the end ` + "`firewall.defaults`" + `: drop and log between zones and to the router, permit
  within a zone and from the router.
- A ` + "`stateless`" + ` policy checks each packet alone. Then the reverse direction is stateless too.

## What the router's own services open

Every sender can reach the router by neighbour discovery, multicast listener discovery, IGMP and
ping (` + "`firewall.icmp-limit`" + `). BGP and its BFD are open to the addresses of the configured peers, OSPF
and its BFD on the interfaces that run OSPF. These openings come before all rules.
`
