/**
 * A known-item query: the question of a user who does not know the name of a manual page, with the pages that answer
 * it, the best first. The queries were written for this benchmark without reading the pages. All pages belong to Debian
 * packages of priority required, important or standard.
 */
export interface KnownItem {
  readonly query: string;
  /** The relevant pages, such as `cp.1`. For nDCG, the first page has the relevance 1, and every other page 0.5. */
  readonly pages: readonly string[];
}

const lines = `
how do I duplicate a folder with everything in it | cp.1
rename or relocate a file | mv.1
delete files without being asked each time | rm.1
overwrite a file so that nobody can recover it | shred.1
which process is eating my memory and cpu right now | top.1 ps.1
stop a program that does not react any more | kill.1 skill.1
see how much space is left on my drives | df.1
find out what takes up all the room in my home directory | du.1
search inside many text files for a phrase | grep.1
replace a word everywhere in a file from the command line | sed.1
look for files changed in the last two days | find.1
run a command for each line that comes in on standard input | xargs.1
keep a job running after I log out | nohup.1 setsid.1
show new lines of a log file as they are written | tail.1 less.1
count lines, words and characters | wc.1
put lines in alphabetical order | sort.1
throw away repeated neighbouring lines | uniq.1
pick certain columns out of each line | cut.1 mawk.1
make one archive out of a directory and compress it | tar.1 gzip.1
compare two versions of a text and show what is different | diff.1 sdiff.1
check that a downloaded file is not damaged with a sha256 digest | sha256sum.1 shasum.1
give somebody else ownership of a file | chown.1
make a script executable | chmod.1
create an alias name pointing at another file | ln.1 symlink.7
print the first few lines of a file | head.1
cut a huge file into smaller parts | split.1 csplit.1
show the text of a file backwards, last line first | tac.1
translate lower case into upper case letters | tr.1
make the lines of two files stand side by side | paste.1 join.1
shuffle a playlist into random order | shuf.1
abort a command when it takes too long | timeout.1
let only one copy of a cron script run at a time | flock.1
make a command run with low priority so that it does not slow down the rest | nice.1 renice.1 ionice.1
pin a process to particular processor cores | taskset.1
set the time and time zone of the machine | timedatectl.1 date.1
change the name of this computer | hostnamectl.1 hostname.1
read the logs of a service since yesterday | journalctl.1
start a background service at boot and see whether it runs | systemctl.1
find out why booting takes so long | systemd-analyze.1
run something once a day with systemd instead of cron | systemd.timer.5
describe a daemon and how to restart it when it crashes | systemd.service.5
listen on a port and start the server at the first connection | systemd.socket.5 systemd-socket-activate.1
limit the memory and cpu that a unit may use | systemd.resource-control.5
sandbox a service so that it cannot write to the file system | systemd.exec.5
start something when a file appears in a directory | systemd.path.5
keep the laptop from going to sleep while a job runs | systemd-inhibit.1
what happens when I close the lid or press the power button | logind.conf.5
clean up old temporary files automatically | tmpfiles.d.5 systemd-tmpfiles.8
how large may the journal grow on disk | journald.conf.5
configure a static address for an ethernet card with networkd | systemd.network.5 networkctl.1
create a bridge or vlan device with networkd | systemd.netdev.5
write the calendar expression for every monday at nine | systemd.time.7
log in to a remote machine securely | ssh.1
make a new key pair for logging in without password | ssh-keygen.1
install my public key on a server | ssh-copy-id.1
type the passphrase of my key only once per session | ssh-agent.1 ssh-add.1
copy files to another computer over an encrypted connection | scp.1 sftp.1
define short names and options for hosts I often connect to | ssh_config.5
download a web site recursively | wget.1
which program listens on port 80 | ss.8 lsof.8 netstat.8
which process keeps this file open so that I cannot unmount | lsof.8
show my ip addresses | ip-address.8 ifconfig.8
set the default gateway | ip-route.8 route.8
bring a network interface up or change its mtu | ip-link.8 ifconfig.8
slow down outgoing traffic to a certain bandwidth | tc-tbf.8 tc.8 tc-htb.8
simulate packet loss and delay for testing | tc-netem.8
packet filter firewall rules | nft.8
which name servers are asked | resolv.conf.5
block a host name by pointing it at localhost | hosts.5
in which order users and hosts are looked up in files and dns | nsswitch.conf.5
file systems that are mounted when the system starts | fstab.5
attach a usb stick to the directory tree | mount.8
safely remove a disk | umount.8
list disks and partitions as a tree | lsblk.8
find the uuid or label of a partition | blkid.8 findfs.8 lsblk.8
repair a damaged ext4 file system | e2fsck.8 fsck.8
make an ext4 file system on a new partition | mke2fs.8 mkfs.8
change the reserved blocks or the label of an ext3 volume | tune2fs.8 e2label.8
grow an ext4 file system after enlarging its partition | resize2fs.8
tell the ssd which blocks are no longer used | fstrim.8 blkdiscard.8
use an image file as if it were a disk | losetup.8 loop.4
more virtual memory by paging to a file | swapon.8 mkswap.8
compressed block device in ram | zramctl.8
erase file system signatures before reusing a disk | wipefs.8
add a new user account | adduser.8 useradd.8
put an existing user into another group | usermod.8 gpasswd.1 adduser.8
force people to change their password every 90 days | chage.1
change my login shell | chsh.1
lock accounts after too many failed logins | pam_faillock.8 faillock.8
restrict the number of open files or processes per user | limits.conf.5 pam_limits.8 prlimit.1
allow logins only at certain hours | pam_time.8 time.conf.5
create the home directory at the first login | pam_mkhomedir.8
only members of a certain group may use su | pam_wheel.8
where encrypted passwords are stored | shadow.5
message shown after login | motd.5 pam_motd.8
install or upgrade software packages | apt-get.8 apt.8
stop a package from being upgraded | apt-mark.8 apt_preferences.5
prefer packages from backports over stable | apt_preferences.5
add a third party package repository | sources.list.5
which package does this file belong to | dpkg-query.1 dpkg.1
answer the questions of a package again | dpkg-reconfigure.8
choose which editor or java is the default | update-alternatives.1
replace a file of a package by my own without it being overwritten | dpkg-divert.1
show all settings of my terminal line and turn echo off | stty.1
record everything that happens in my terminal session | script.1 scriptreplay.1
convert a file from latin1 to utf-8 | iconv.1 piconv.1
what kind of file is this | file.1
show the bytes of a binary file in hexadecimal | od.1
do arithmetic with arbitrary precision | bc.1
split a number into its prime factors | factor.1
count from 1 to 100 in steps of five | seq.1
wait a few seconds in a shell script | sleep.1
write output both to the screen and into a file | tee.1
run the same command every two seconds and watch the output | watch.1
make a unique temporary file name in a script | mktemp.1
parse command line options in a shell script | getopt.1
be told when files in a directory change, as a programmer | inotify.7 fanotify.7
wait for events on many file descriptors efficiently | epoll.7
isolate a process with its own process ids and mounts | namespaces.7 unshare.1 pid_namespaces.7
give a program the right to bind a low port without being root | setcap.8 capabilities.7
what signal numbers mean and what they do by default | signal.7
which functions may be called in a signal handler | signal-safety.7
talk between processes on the same host through a socket file | unix.7
tune kernel parameters at runtime | sysctl.8 sysctl.conf.5
information about the kernel and processes exposed as files | proc.5
what belongs in /usr, /var and /opt | hier.7 file-hierarchy.7
wildcard patterns for file names | glob.7
syntax of regular expressions | regex.7 grep.1
table of character codes | ascii.7
colour codes and cursor movement sequences of the console | console_codes.4
source of randomness for keys | random.4 random.7
device that swallows everything written to it | null.4
drop root privileges before running a command | setpriv.1 runuser.1 su.1
see who is logged in and what they do | w.1 who.1
who logged in lately and when did the machine reboot | last.1 lastlog.8
power off the machine at a given time | shutdown.8
wake the computer up at a set time from suspend | rtcwake.8
kernel messages since boot | dmesg.1
which processor do I have and how many cores | lscpu.1 nproc.1
how much ram is free | free.1 vmstat.8
squeeze a file as small as possible | xz.1 bzip2.1
page through a long text and search in it | less.1 more.1
search the manual for a keyword | apropos.1 man.1
`;

export const knownItems: readonly KnownItem[] = lines
  .trim()
  .split("\n")
  .map((line) => {
    const [query = "", pages = ""] = line.split(" | ");
    return { query, pages: pages.split(" ") };
  });
