// SPDX-License-Identifier: Apache-2.0

package drivers

import "strings"

// Kernel is the Linux whose drivers were read, and Read the day of it.
const (
	Kernel = "6.12.117"
	Read   = "2026-11-21"
)

// Source says where a column of the table comes from.
type Source struct {
	Column string `json:"column"`
	From   string `json:"from"`
}

// Sources are those of the columns of a Driver.
func Sources() []Source {
	return []Source{
		{"native, redirect, transmit, frags, zero copy", "xdp_features and ndo_xdp_xmit in the drivers' sources, Linux " + Kernel + " (Debian's linux-source-6.12), read " + Read},
		{"VLAN tags", "NETIF_F_HW_VLAN_CTAG_RX in features and hw_features, and xmo_rx_vlan_tag, in the same sources, read " + Read},
		{"since", "lists of Cilium (reference guide, BPF program types) and of docs.ebpf.io (BPF_PROG_TYPE_XDP), looked up " + Read + "; not checked against Linux's history"},
		{"hardware", "general knowledge, neither complete nor verified: what driver a card has, lspci -k and ethtool -i tell"},
	}
}

// Transmit says when a port takes frames that programs of other ports send out of it (ndo_xdp_xmit).
type Transmit string

const (
	Always      Transmit = "always"
	WithProgram Transmit = "with a program" // only while the port itself carries one
	WithPeer    Transmit = "with a peer"    // of a veth: while its other end has a program or GRO
	AsMembers   Transmit = "as its members" // of a bond
	Never       Transmit = "no"
)

// Tags says what becomes of the VLAN tag of a frame before a program sees it.
type Tags string

const (
	Kept       Tags = "kept"       // the driver never strips
	Switchable Tags = "switchable" // stripped, unless told not to (ethtool -K PORT rxvlan off)
	Stripped   Tags = "stripped"   // always: a program can't tell tagged frames from others
	PerChip    Tags = "per chip"   // one of the above, by what the chip is
)

// Driver is a driver of Linux that runs XDP programs itself.
type Driver struct {
	Name     string   `json:"driver"` // as ethtool -i prints it
	Hardware string   `json:"hardware"`
	Since    string   `json:"since,omitempty"` // first Linux with XDP in it; "" where no list names it
	Redirect bool     `json:"redirect"`
	Transmit Transmit `json:"transmit"`
	Frags    bool     `json:"frags"`     // packets in several buffers: MTUs beyond about 3,500 bytes
	ZeroCopy bool     `json:"zero_copy"` // AF_XDP without copying; Minne has no use for it
	Tags     Tags     `json:"vlan_tags"`
	TagHint  bool     `json:"vlan_hint"` // tells a program a stripped tag (bpf_xdp_metadata_rx_vlan_tag)
	Remark   string   `json:"remark,omitempty"`
}

// all are sorted by name.
var all = []Driver{
	{"am65-cpsw-nuss", "TI AM62, AM64, AM65", "6.10", true, Always, false, false, Kept, false, ""},
	{"atlantic", "Aquantia/Marvell AQC100…113, 1–10G", "5.19", true, Always, true, false, Switchable, false, ""},
	{"bnxt_en", "Broadcom NetXtreme-C/E, 10–200G", "4.11", true, WithProgram, true, false, Switchable, false, ""},
	{"bonding", "bonds of Linux", "5.15", true, AsMembers, true, false, Switchable, false, "has what all its members have, and nothing in modes without XDP"},
	{"cpsw", "TI AM335x, AM437x", "5.3", true, Always, false, false, Stripped, false, ""},
	{"cpsw-switch", "TI AM5 (new cpsw driver)", "", true, Always, false, false, Stripped, false, ""},
	{"ena", "Amazon EC2", "5.6", true, WithProgram, false, false, Kept, false, ""},
	{"fec", "NXP i.MX", "6.2", true, WithProgram, false, false, Switchable, false, "not on chips that swap a frame's bytes (i.MX28)"},
	{"fsl_dpa", "NXP QorIQ, Layerscape LS1043/46 (DPAA1)", "5.11", true, Always, false, false, Kept, false, ""},
	{"fsl_dpaa2_eth", "NXP Layerscape LS1088, LX2160 (DPAA2)", "5.0", true, Always, false, true, Kept, false, "zero copy on some chips"},
	{"fsl_enetc", "NXP LS1028A", "5.13", true, Always, true, false, Switchable, false, ""},
	{"funeth", "Fungible", "5.18", true, WithProgram, false, false, Kept, false, ""},
	{"gve", "Google Compute Engine", "6.4", true, WithProgram, false, true, Kept, false, "only in the queue format GQI-QPL"},
	{"hv_netvsc", "Hyper-V, Azure", "5.6", true, Always, false, false, Stripped, false, ""},
	{"i40e", "Intel X710, XL710, X722, 10–40G", "4.13", true, WithProgram, true, true, Switchable, false, ""},
	{"ice", "Intel E810, E822, E823, 10–100G", "5.5", true, WithProgram, true, true, Switchable, true, ""},
	{"igb", "Intel 82575/76/80, I350, I354, I210, I211, 1G", "5.10", true, WithProgram, false, false, Switchable, false, ""},
	{"igc", "Intel I225, I226, 2.5G", "5.13", true, WithProgram, false, true, Switchable, false, ""},
	{"ionic", "Pensando/AMD DSC", "6.9", true, Always, true, false, Switchable, false, ""},
	{"ixgbe", "Intel 82599, X520, X540, X550, 10G", "4.12", true, WithProgram, false, true, Switchable, false, ""},
	{"ixgbevf", "virtual functions of ixgbe", "4.17", false, Never, false, false, Stripped, false, ""},
	{"lan966x-switch", "Microchip LAN966x", "6.2", true, Always, false, false, Kept, false, ""},
	{"mana", "Microsoft Azure MANA", "5.17", true, Always, false, false, Stripped, false, ""},
	{"mlx4_en", "Mellanox ConnectX-3, 10–40G", "4.8", true, Never, false, false, Switchable, false, ""},
	{"mlx5_core", "Mellanox/NVIDIA ConnectX-4 and later, BlueField", "4.9", true, Always, true, true, Switchable, true, ""},
	{"mtk_soc_eth", "MediaTek MT7622, MT7981, MT7986, MT7988", "6.0", true, Always, false, false, Kept, false, "not on all chips; ports of a switch behind it (DSA) were not looked at"},
	{"mvneta", "Marvell Armada 38x, 370, XP, 3700", "5.5", true, Always, true, false, Kept, false, "not with the hardware's buffer pools (BM)"},
	{"mvpp2", "Marvell Armada 7K, 8K, CN913x", "5.9", true, Always, false, false, Kept, false, ""},
	{"netsec", "Socionext SynQuacer", "5.3", true, Always, false, false, Kept, false, ""},
	{"nfp", "Netronome Agilio", "4.10", true, Never, false, true, Switchable, false, "redirect and zero copy only with the NFD3 firmware; can run programs on the card"},
	{"nicvf", "Cavium ThunderX", "4.12", false, Never, false, false, Switchable, false, ""},
	{"qede", "QLogic/Marvell FastLinQ 41000, 45000, 10–100G", "4.10", true, Always, false, false, Stripped, false, ""},
	{"rvu-nicpf", "Marvell OCTEON TX2, CN10K", "5.16", true, WithProgram, false, false, Switchable, false, ""},
	{"sfc", "Solarflare/AMD 7000, 8000, X2, Alveo, 10–100G", "5.5", true, Always, false, false, Kept, false, ""},
	{"st_gmac", "Synopsys DesignWare GMAC in many ARM and RISC-V boards (stmmac)", "5.13", true, WithProgram, false, true, PerChip, false, ""},
	{"tsnep", "Engleder TSN endpoint", "6.3", true, Always, false, true, Kept, false, ""},
	{"tun", "taps of virtual machines", "4.14", true, Always, false, false, Kept, false, "taps only"},
	{"veth", "pairs of Linux, labs and containers", "4.19", true, WithPeer, true, false, Switchable, true, ""},
	{"vif", "Xen guests (xen-netfront)", "5.9", true, Always, false, false, Kept, false, ""},
	{"virtio_net", "guests of KVM, QEMU, many clouds", "4.10", true, WithProgram, true, false, Kept, false, "give it two pairs of queues for each CPU: with fewer, transmitting takes a lock; frags only with mergeable buffers"},
	{"vmxnet3", "guests of VMware", "6.6", true, WithProgram, false, false, Switchable, false, ""},
}

// generic are drivers that people often have and that run no XDP program themselves. They aren't all:
// every driver of Linux that isn't among the others is one of them.
var generic = map[string]string{
	"ax88179_178a": "ASIX USB adapters",
	"bcmgenet":     "Raspberry Pi 4",
	"e1000":        "old Intel, and QEMU's default",
	"e1000e":       "Intel 82574, 82579, I217, I218, I219",
	"iavf":         "virtual functions of i40e and ice",
	"idpf":         "Intel E2000",
	"lan78xx":      "Raspberry Pi 3B+",
	"macb":         "Raspberry Pi 5, SiFive, Zynq",
	"r8152":        "Realtek USB adapters",
	"r8169":        "Realtek RTL8111, 8168, 8125, 8126",
	"tg3":          "Broadcom NetXtreme, 1G",
}

// All returns the drivers with native XDP, by name.
func All() []Driver { return append([]Driver(nil), all...) }

// Generic returns drivers that people often have and that lack native XDP, with their hardware.
func Generic() map[string]string {
	m := make(map[string]string, len(generic))
	for name, hardware := range generic {
		m[name] = hardware
	}
	return m
}

// Find returns a driver by the name that ethtool -i prints. Drivers not found have no native XDP in
// Linux Kernel, or aren't part of Linux.
func Find(name string) (Driver, bool) {
	if strings.HasPrefix(name, "st_") { // st_gmac, st_xgmac, st_mac100 are one driver
		name = "st_gmac"
	}
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return Driver{}, false
}

// Use is what Minne's fast path can do on a port.
type Use string

const (
	Both Use = "both ways"
	In   Use = "in only" // packets that arrive here take it; those that leave here go by the kernel
	None Use = "no"
)

// Use returns what the fast path can do on ports of a driver, and why not more. The fast path keeps
// tags where it can and refuses a port where it can't: it would take tagged frames for others.
func (d Driver) Use() (Use, string) {
	switch {
	case !d.Redirect:
		return None, "no redirect"
	case d.Tags == Stripped:
		return None, "strips VLAN tags, and this can't be turned off"
	case d.Transmit == Never:
		return In, "does not transmit for XDP"
	}
	return Both, ""
}
