// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Guard is a table of a few rules that lets pass only what another table has marked. It stands
// behind that one: when the other is gone, or was never there, nothing is marked, nothing is
// forwarded, and the router itself hears only what Self lets pass.
//
// It is written over netlink, so it needs no nft(8), and no module but that of nftables. Its owner is
// this process: the kernel lets nobody else change or delete it, and "nft flush ruleset" leaves it
// alone (NFT_TABLE_F_OWNER). When this process is gone, a keeper owns it (owner.go) until the next one
// takes it over; without a keeper, it stays without an owner (NFT_TABLE_F_PERSIST, Linux 6.9).
type Guard struct {
	Table   string // of family inet
	Comment string
	Mark    uint32 // bits of the packet's mark that the other table sets; the guard takes them away again
	Shut    bool   // marks don't help either, but HelpMark

	Self   []Rule  // on what comes to the router itself without a mark; what none decides is dropped
	Chains []Chain // that they go to
}

// Values of linux/netfilter/nf_tables.h that x/sys does not have.
const (
	ownerFlags    = 0x2 | 0x4 // NFT_TABLE_F_OWNER, NFT_TABLE_F_PERSIST
	destroyTable  = 0x1a      // NFT_MSG_DESTROYTABLE, since Linux 6.3
	metaSourceReg = 3         // NFTA_META_SREG
	metaSlaveName = 34        // NFT_META_SDIFNAME
)

// HelpMark is the bit of the mark by which the filter of an image's boot has the guard let logins of
// help reach the router, whatever the rules are.
const HelpMark = 1 << 30

// guardPriority is behind all chains of the priority "filter".
const guardPriority = 10

// Write puts the guard in place in one transaction, whatever was there.
func (g *Guard) Write() error {
	err := withOwner(g.Table, func(o *owner) error {
		err := o.run(transaction(g.messages()...))
		if err == nil {
			o.startKeeper()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make table %s in the kernel: %w", g.Table, err)
	}
	return nil
}

// Remove removes tables that this process owns, or nobody, in one transaction, and ends the keeper.
func Remove(tables ...string) error {
	var messages []message
	for _, table := range tables {
		if _, there, err := Comment(table); err != nil {
			return err
		} else if there {
			messages = append(messages, destroy(table))
		}
	}
	if len(messages) == 0 {
		return nil
	}
	err := withOwner(tables[0], func(o *owner) error {
		o.endKeeper()
		return o.run(transaction(messages...))
	})
	if err != nil {
		return fmt.Errorf("remove %s from the kernel: %w", strings.Join(tables, " and "), err)
	}
	return nil
}

// newTable is the message that makes a table with an owner.
func newTable(name, comment string) message {
	userdata := append([]byte{0, byte(len(comment) + 1)}, comment...)
	return add(unix.NFT_MSG_NEWTABLE).text(unix.NFTA_TABLE_NAME, name).attribute(unix.NFTA_TABLE_FLAGS, be32(ownerFlags)).
		attribute(tableUserdata, append(userdata, 0)).end()
}

// add begins a message that makes something.
func add(kind uint16) message {
	return newMessage(kindOf(kind), unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.NFPROTO_INET)
}

func destroy(table string) message {
	return newMessage(kindOf(destroyTable), unix.NLM_F_REQUEST, unix.NFPROTO_INET).text(unix.NFTA_TABLE_NAME, table).end()
}

// transaction puts messages into one batch, the last of which is answered.
func transaction(messages ...message) []byte {
	batch := newMessage(unix.NFNL_MSG_BATCH_BEGIN, unix.NLM_F_REQUEST, 0).end()
	for i, m := range messages {
		if i == len(messages)-1 {
			binary.NativeEndian.PutUint16(m[6:], binary.NativeEndian.Uint16(m[6:])|unix.NLM_F_ACK)
		}
		batch = append(batch, m...)
	}
	return append(batch, newMessage(unix.NFNL_MSG_BATCH_END, unix.NLM_F_REQUEST, 0).end()...)
}

// messages are the transaction that puts the guard in place.
func (g *Guard) messages() []message {
	messages := []message{destroy(g.Table), newTable(g.Table, g.Comment)}
	// Not the chain's policy: that of a new chain is accept until the kernel is through with what stands
	// before it in the transaction, here the end of the former guard.
	last := rule{}.counter().verdict(dropped)
	rules := func(name string, list []rule) {
		for _, r := range list {
			m := add(unix.NFT_MSG_NEWRULE).text(unix.NFTA_RULE_TABLE, g.Table).text(unix.NFTA_RULE_CHAIN, name)
			m, at := m.nest(unix.NFTA_RULE_EXPRESSIONS)
			m = append(m, r...)
			m.close(at)
			messages = append(messages, m.end())
		}
	}
	chain := func(name string) message {
		return add(unix.NFT_MSG_NEWCHAIN).text(unix.NFTA_CHAIN_TABLE, g.Table).text(unix.NFTA_CHAIN_NAME, name)
	}
	base := func(name string, hook uint32, list ...rule) {
		m, at := chain(name).nest(unix.NFTA_CHAIN_HOOK)
		m = m.attribute(unix.NFTA_HOOK_HOOKNUM, be32(hook)).attribute(unix.NFTA_HOOK_PRIORITY, be32(guardPriority))
		m.close(at)
		messages = append(messages, m.attribute(unix.NFTA_CHAIN_POLICY, be32(dropped)).text(unix.NFTA_CHAIN_TYPE, "filter").end())
		rules(name, append(list, last))
	}
	compile := func(list []Rule) (all []rule) {
		for i := range list {
			all = append(all, list[i].expressions())
		}
		return all
	}
	for _, c := range g.Chains {
		messages = append(messages, chain(c.Name).end())
		rules(c.Name, append(compile(c.Rules), last))
	}
	unmarked := func(bits uint32) rule {
		return rule{}.meta(unix.NFT_META_MARK).mask(bits).compare(unix.NFT_CMP_NEQ, native32(0)).
			meta(unix.NFT_META_MARK).mask(^(bits | g.Mark)).setMark().verdict(accepted)
	}
	mark := g.Mark
	var forward []rule
	if g.Shut {
		mark = 0
	} else {
		forward = []rule{unmarked(mark)}
	}
	base("forward", unix.NF_INET_FORWARD, forward...)
	input := []rule{unmarked(mark | HelpMark)}
	if g.Shut {
		input = append(input, rule{}.meta(unix.NFT_META_MARK).mask(^g.Mark).setMark())
	}
	base("input", unix.NF_INET_LOCAL_IN, append(input, compile(g.Self)...)...)
	return messages
}

// Verdicts (linux/netfilter.h).
const (
	dropped  uint32 = 0
	accepted uint32 = 1
)

func be32(n uint32) []byte     { return binary.BigEndian.AppendUint32(nil, n) }
func native32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// rule is the list of a rule's expressions, each of which works on register 1.
type rule message

func (r rule) expression(name string, body message) rule {
	m, at := message(r).nest(unix.NFTA_LIST_ELEM)
	m = m.text(unix.NFTA_EXPR_NAME, name).attribute(unix.NFTA_EXPR_DATA|unix.NLA_F_NESTED, body)
	m.close(at)
	return rule(m)
}

// data is an attribute with a value in it.
func (m message) data(kind uint16, value []byte) message {
	m, at := m.nest(kind)
	m = m.attribute(unix.NFTA_DATA_VALUE, value)
	m.close(at)
	return m
}

// meta loads something about the packet.
func (r rule) meta(key uint32) rule {
	return r.expression("meta", message{}.attribute(unix.NFTA_META_DREG, be32(unix.NFT_REG_1)).attribute(unix.NFTA_META_KEY, be32(key)))
}

// setMark stores the packet's mark.
func (r rule) setMark() rule {
	return r.expression("meta", message{}.attribute(unix.NFTA_META_KEY, be32(unix.NFT_META_MARK)).attribute(metaSourceReg, be32(unix.NFT_REG_1)))
}

// mask keeps some bits.
func (r rule) mask(keep uint32) rule { return r.maskBytes(native32(keep)) }

func (r rule) maskBytes(keep []byte) rule {
	return r.expression("bitwise", message{}.attribute(unix.NFTA_BITWISE_SREG, be32(unix.NFT_REG_1)).
		attribute(unix.NFTA_BITWISE_DREG, be32(unix.NFT_REG_1)).attribute(unix.NFTA_BITWISE_LEN, be32(uint32(len(keep)))).
		data(unix.NFTA_BITWISE_MASK, keep).data(unix.NFTA_BITWISE_XOR, make([]byte, len(keep))))
}

func (r rule) compare(how uint32, value []byte) rule {
	return r.expression("cmp", message{}.attribute(unix.NFTA_CMP_SREG, be32(unix.NFT_REG_1)).attribute(unix.NFTA_CMP_OP, be32(how)).
		data(unix.NFTA_CMP_DATA, value))
}

func (r rule) counter() rule { return r.expression("counter", nil) }

func (r rule) verdict(code uint32) rule {
	return r.immediate(message{}.attribute(unix.NFTA_VERDICT_CODE, be32(code)))
}

// immediate decides.
func (r rule) immediate(verdict message) rule {
	body, at := message{}.attribute(unix.NFTA_IMMEDIATE_DREG, be32(unix.NFT_REG_VERDICT)).nest(unix.NFTA_IMMEDIATE_DATA)
	body = body.attribute(unix.NFTA_DATA_VERDICT|unix.NLA_F_NESTED, verdict)
	body.close(at)
	return r.expression("immediate", body)
}
