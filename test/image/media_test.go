// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/testing/testimage"
)

// first is a disk whose router was given the configuration "plain", made once. The file
// has no name: it is gone with this process, however that ends.
var first struct {
	sync.Once
	disk *os.File
}

// configured returns a copy of that disk.
func configured(t *testing.T) string {
	t.Helper()
	first.Do(func() {
		disk := testimage.Copy(t)
		m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
		shell(m)
		configure(m, plain)
		m.Off()
		f, err := os.Open(disk)
		if err != nil {
			t.Fatal(err)
		}
		first.disk = f
	})
	if first.disk == nil {
		t.Fatal("no configured disk: its test failed")
	}
	disk := filepath.Join(t.TempDir(), "disk.img")
	copySparse(t, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), first.disk.Fd()), disk)
	return disk
}

func copySparse(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// edit opens the disk of a machine that is off.
func edit(t *testing.T, disk string) *os.File {
	t.Helper()
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// twin copies slot a to slot b.
func twin(t *testing.T, disk string) {
	t.Helper()
	f, p := edit(t, disk), partitions(t, disk)
	b := make([]byte, 1<<20)
	for at := int64(0); at < p["minne-a"].size; at += int64(len(b)) {
		if _, err := f.ReadAt(b, p["minne-a"].start+at); err != nil {
			t.Fatal(err)
		}
		if strings.Trim(string(b), "\x00") == "" {
			continue
		}
		if _, err := f.WriteAt(b, p["minne-b"].start+at); err != nil {
			t.Fatal(err)
		}
	}
}

// scratch inverts a sector of a slot.
func scratch(t *testing.T, disk, slot string, at int64) {
	t.Helper()
	f, b := edit(t, disk), make([]byte, 512)
	at += partitions(t, disk)["minne-"+slot].start
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 0xff
	}
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// state is which system boots, whatever GRUB has counted.
func state(t *testing.T, disk string) slot.State {
	t.Helper()
	p := partitions(t, disk)["minne-state"]
	s, err := slot.LoadState(io.NewSectionReader(open(t, disk), p.start, p.size))
	if err != nil {
		t.Fatal(err)
	}
	s.Starts = ""
	return s
}

func systemSize(t *testing.T, disk string) int64 {
	t.Helper()
	p := partitions(t, disk)["minne-a"]
	s, err := slot.Read(io.NewSectionReader(open(t, disk), p.start, p.size), p.size)
	if err != nil {
		t.Fatal(err)
	}
	return s.Size
}

// TestUEFI boots from a USB stick with UEFI, and keeps a picture of the screen.
func TestUEFI(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), UEFI: true, USB: true, Ports: 2})
	up(m)
	forwards(t, m)
	m.Run("test -d /sys/firmware/efi && grep -q root=memory /run/minne-boot")
	ppm := filepath.Join(t.TempDir(), "screen.ppm")
	m.Screen(ppm)
	picture(t, ppm, "../../build/screen-uefi.png")
}

// picture makes a PNG of a PPM, which must not be of one colour.
func picture(t *testing.T, ppm, file string) {
	t.Helper()
	f := open(t, ppm)
	var w, h, depth int
	if _, err := fmt.Fscanf(f, "P6\n%d %d\n%d\n", &w, &h, &depth); err != nil {
		t.Fatalf("screen: %v", err)
	}
	pixels, err := io.ReadAll(f)
	if err != nil || len(pixels) < 3*w*h {
		t.Fatalf("screen: %d bytes of %d×%d: %v", len(pixels), w, h, err)
	}
	picture, lit := image.NewRGBA(image.Rect(0, 0, w, h)), 0
	for i := range w * h {
		r, g, b := pixels[3*i], pixels[3*i+1], pixels[3*i+2]
		picture.Set(i%w, i/w, color.RGBA{r, g, b, 255})
		if int(r)+int(g)+int(b) > 128 {
			lit++
		}
	}
	if lit < 500 || lit > w*h/2 {
		t.Errorf("the screen has %d lit pixels of %d: no text", lit, w*h)
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(out, picture); err != nil {
		t.Fatal(err)
	}
	out.Close()
}

// TestDamagedSlot scratches the system in slot a where GRUB finds it, and where only
// the initramfs does: slot b is booted and stays.
func TestDamagedSlot(t *testing.T) {
	for name, at := range map[string]func(size int64) int64{
		"superblock": func(int64) int64 { return 0 },
		"kernel":     func(int64) int64 { return 8 << 20 },
		"programs":   func(size int64) int64 { return size * 3 / 4 },
	} {
		t.Run(name, func(t *testing.T) {
			disk := configured(t)
			twin(t, disk)
			scratch(t, disk, "a", at(systemSize(t, disk))&^511)
			m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
			m.Expect(`slot b`)
			up(m)
			m.Run("grep -q slot=b /run/minne-boot")
			m.Off()
			if got := state(t, disk); got != (slot.State{Slot: "b", Failed: "a"}) {
				t.Errorf("boot state is %+v", got)
			}
		})
	}
}

// TestNoSoundSlot has a damaged system and no other: it is used, and said to be damaged.
func TestNoSoundSlot(t *testing.T) {
	disk := configured(t)
	scratch(t, disk, "a", systemSize(t, disk)-9000) // in a table at the end, or the last file
	m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	m.Expect(`going on with the damaged one|can't be mounted`)
}

// TestReadOnlyMedium is a stick whose switch is on "lock", or that is worn out: the
// router routes, and refuses commits.
func TestReadOnlyMedium(t *testing.T) {
	disk := configured(t)
	m := testimage.Boot(t, testimage.Options{Disk: disk, ReadOnly: true, Ports: 2})
	up(m)
	forwards(t, m)
	m.Write("/tmp/minne.yaml", strings.Replace(plain, "edge", "changed", 1))
	if out, code := m.Try("minne apply /tmp/minne.yaml"); code != "1" || !strings.Contains(out, "cannot write the boot medium") {
		t.Errorf("a commit onto a medium that can't be written: exit code %s\n%s", code, out)
	}
	forwards(t, m)
}

// TestPulledStick pulls the stick out of a router that runs from memory: it routes, refuses
// commits, and takes them again when the stick is back.
func TestPulledStick(t *testing.T) {
	disk := configured(t)
	m := testimage.Boot(t, testimage.Options{Disk: disk, USB: true, Ports: 2})
	up(m)
	m.Monitor("device_del stick")
	m.Expect(`the medium was pulled out: the router goes on`)
	m.Run("while [ -e /dev/sda ]; do sleep 1; done; echo 3 >/proc/sys/vm/drop_caches")
	forwards(t, m)
	m.Write("/tmp/minne.yaml", strings.Replace(plain, "edge", "changed", 1))
	if out, code := m.Try("minne apply /tmp/minne.yaml"); code != "1" || !strings.Contains(out, "cannot read the boot medium: it is removed") {
		t.Errorf("a commit without the medium: exit code %s\n%s", code, out)
	}
	m.Monitor("drive_add 0 if=none,id=again,format=raw,cache=unsafe,file=" + disk)
	m.Monitor("device_add usb-storage,id=stick,drive=again")
	m.Expect(`the medium is back`)
	m.Run("minne apply /tmp/minne.yaml")
	m.Type("reboot\n")
	up(m)
	if out := m.Run("hostname"); strings.TrimSpace(out) != "changed" {
		t.Errorf("after a restart the host is %s", out)
	}
}

// TestFullMedium commits onto a partition without room: the commit is refused, and
// the next start is with what was there before.
func TestFullMedium(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), Ports: 2})
	up(m)
	m.Run("mount -o remount,rw /config; dd if=/dev/zero of=/config/fill bs=64k 2>/dev/null; dd if=/dev/zero of=/config/more bs=512 2>/dev/null; sync; mount -o remount,ro /config")
	m.Write("/tmp/minne.yaml", strings.Replace(plain, "edge", "changed", 1)+strings.Repeat("# filling\n", 1000))
	if out, code := m.Try("minne apply /tmp/minne.yaml"); code != "1" || !strings.Contains(out, "no space") {
		t.Errorf("a commit onto a full medium: exit code %s\n%s", code, out)
	}
	forwards(t, m)
	m.Type("reboot\n")
	up(m)
	forwards(t, m)
}

// TestWrongClock starts with a flat battery.
func TestWrongClock(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), Clock: "2001-02-03T04:05:06", Ports: 2})
	m.Expect(`the clock showed 2001-02-03T04:0`)
	up(m)
	m.Run(`test "$(date +%s)" -ge "$(date -D %Y-%m-%dT%H:%M:%SZ -d "$(sed 's/.*"built":"\([^"]*\)".*/\1/' /usr/lib/minne/release.json)" +%s)"`)
}

// TestOtherPorts moves the medium to machines whose ports are others: one is missing
// (the rest works, and the console says what is not there), or they are found in
// another order by another driver.
func TestOtherPorts(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		m := testimage.Boot(t, testimage.Options{Disk: configured(t), Ports: 1})
		m.Expect(`revision 1 is in force, but this is missing of it:\s+.*lan`)
		login(m)
		m.Run("ip -br address show wan | grep -q 198.51.100.2/24")
	})
	t.Run("renamed", func(t *testing.T) {
		m := testimage.Boot(t, testimage.Options{Disk: configured(t), Ports: 2, Card: "e1000e",
			Extra: []string{"-netdev", "user,id=x,restrict=on", "-device", "virtio-net-pci,netdev=x,mac=52:54:00:00:00:99"}})
		up(m)
		forwards(t, m)
	})
}

// TestWatchdog stops the daemon in the middle: the machine is reset and works again.
func TestWatchdog(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), Watchdog: true, Ports: 2})
	up(m)
	m.Run(`until grep -q i6300 /sys/class/watchdog/*/identity && grep -qx active /sys/class/watchdog/*/state; do sleep 1; done`)
	began := time.Now()
	m.Run("kill -STOP $(pidof minne)")
	m.Expect(`Minne: slot a`)
	t.Logf("reset after %s", time.Since(began).Round(time.Second))
	m.Expect(`forwarding since`)
}
