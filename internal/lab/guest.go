// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/lab/remote"
)

// The inside of a machine: `minne lab guest init` is its first process.

// guest is what a machine is told of the node that it is, as guest.json in the node's directory.
type guest struct {
	Node  Node
	Ports []guestPort // in the order of the machine's network devices
}

type guestPort struct {
	Port
	MTU int // bytes
}

// guestProgram is the minne command inside.
const guestProgram = guestDir + "/bin/minne"

const (
	umlLine = "/dev/ttyS0"
	// agentReady is the agent's first line: what came to the line before was not for it.
	agentReady = "minne-agent\n"
)

// GuestInit is the first process of a machine whose node has this directory, on the host and inside. It
// prepares a system, runs the agent, and powers the machine off when that ends.
func GuestInit(dir string) error {
	err := prepareSystem(dir)
	if err == nil {
		err = runAgent()
	}
	if err != nil {
		fmt.Println("minne lab guest:", err)
		unix.IoctlSetInt(int(os.Stdout.Fd()), unix.TCSBRK, 1) //nolint:errcheck // wait until it is on the console, if that is one
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// runAgent has a second process serve the line: the first one also inherits the processes that others leave.
func runAgent() error {
	agent := exec.Command("/proc/self/exe", "lab", "guest", "agent", umlLine)
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := agent.Start(); err != nil {
		return err
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid == agent.Process.Pid || err != nil && err != unix.EINTR {
			return err
		}
	}
}

// GuestAgent serves a line, a serial port or a port of virtio, until it ends.
func GuestAgent(line string) error {
	f, err := os.OpenFile(line, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		// Nothing may be echoed, translated, or taken for a key, and a read waits for at least one byte.
		raw := unix.Termios{Cflag: unix.CS8 | unix.CREAD | unix.B115200}
		raw.Cc[unix.VMIN] = 1
		if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &raw); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	if _, err := f.WriteString(agentReady); err != nil {
		return err
	}
	return remote.Serve(f, remote.Local{})
}

// prepareSystem mounts what programs expect and loads the kernel's modules. The root is the host's and can't be
// written; what is written below /etc and /var is kept in memory.
func prepareSystem(dir string) error {
	executable := os.Args[0] // as the kernel started it; what stands in /proc is still the host's
	if err := mountAll([]mount{{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""}, {"bpf", "/sys/fs/bpf", "bpf", ""},
		{"devpts", "/dev/pts", "devpts", ""}, {"tmpfs", "/run", "tmpfs", ""}}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(guestProgram), 0o755); err != nil {
		return err
	}
	// Before /tmp is covered, where the program may lie.
	if err := os.WriteFile(guestProgram, nil, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(executable, guestProgram, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("minne inside: %w", err)
	}
	if err := mountAll([]mount{{"tmpfs", "/tmp", "tmpfs", ""}, {"tmpfs", guestDir + "/over", "tmpfs", ""}, {"none", dir, "hostfs", "/host" + dir}}); err != nil {
		return err
	}
	if err := loadModules(filepath.Join(dir, "modules"), umlModules); err != nil {
		return err
	}
	for _, name := range []string{"etc", "var"} {
		over := filepath.Join(guestDir, "over", name)
		if err := errors.Join(os.MkdirAll(over+"/upper", 0o755), os.MkdirAll(over+"/work", 0o755)); err != nil {
			return err
		}
		if err := mountAll([]mount{{"overlay", "/" + name, "overlay", "lowerdir=/" + name + ",upperdir=" + over + "/upper,workdir=" + over + "/work"}}); err != nil {
			return err
		}
	}
	return os.Setenv("PATH", filepath.Join(dir, toolsDir)+":"+filepath.Dir(guestProgram)+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

type mount struct{ source, target, kind, options string }

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if _, err := os.Stat(m.target); err != nil {
			if err := os.MkdirAll(m.target, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.source, m.target, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

// loadModules loads modules of the running kernel from a directory that has one for each release.
func loadModules(dir string, names []string) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	dir = filepath.Join(dir, unix.ByteSliceToString(u.Release[:]))
	index, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return err
	}
	for _, name := range names {
		for _, file := range moduleFiles(string(index), name) {
			if err := loadModule(filepath.Join(dir, file)); err != nil {
				return err
			}
		}
	}
	return nil
}

// moduleFiles returns a module's file behind all that it needs, none for what is no module of this kernel. A
// line of modules.dep reads "module: needed…", what is needed last standing first.
func moduleFiles(index, name string) []string {
	for line := range strings.Lines(index) {
		file, needed, _ := strings.Cut(line, ":")
		if filepath.Base(file) == name+".ko" {
			files := append([]string{file}, strings.Fields(needed)...)
			slices.Reverse(files)
			return files
		}
	}
	return nil
}

// moduleParameters keep drivers from making devices that nobody asked for.
var moduleParameters = map[string]string{"bonding.ko": "max_bonds=0", "dummy.ko": "numdummies=0"}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), moduleParameters[filepath.Base(path)], 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load kernel module %s: %w", path, err)
	}
	return nil
}

// GuestConfigure makes of the machine it runs in the node that a file tells of.
func GuestConfigure(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var g guest
	if err := json.Unmarshal(text, &g); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(g.Node.Name)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	for i, p := range g.Ports {
		if err := p.set(fmt.Sprintf("vec%d", i)); err != nil {
			return fmt.Errorf("port %s: %w", p.Name, err)
		}
	}
	return configure(g.Node)
}

// set makes a network device the port.
func (p guestPort) set(device string) error {
	l, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetName(l, p.Name), netlink.LinkSetMTU(l, p.MTU)); err != nil {
		return err
	}
	return setPort(p.Port)
}
