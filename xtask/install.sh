#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Installs what lies beside this script, or takes it away again.
set -eu

usage() {
	cat <<'END'
usage: install.sh [--uninstall] [NAME=VALUE]...

Installs what lies beside this script: the modules for the kernel release that the folder is named
after, the turnstile command, tc's plugin, man pages, completions, and Wireshark's dissector.

  --uninstall   take all of it away again; modules that are loaded stay until `modprobe -r`
  --help        print this

  PREFIX=DIR    the command, man pages and completions go below it [/usr/local]
  DESTDIR=DIR   install into this folder, as if it were the root of a machine
  TC_LIB_DIR=DIR
                where tc looks for plugins [/usr/lib/x86_64-linux-gnu/tc]
  WIRESHARK_PLUGIN_DIR=DIR
                where Wireshark does [/usr/lib/x86_64-linux-gnu/wireshark/plugins]

A NAME may be in the environment instead.
END
}

action=install
for argument; do
	case $argument in
	--help | -h)
		usage
		exit 0
		;;
	--uninstall) action=uninstall ;;
	PREFIX=*) PREFIX=${argument#*=} ;;
	DESTDIR=*) DESTDIR=${argument#*=} ;;
	TC_LIB_DIR=*) TC_LIB_DIR=${argument#*=} ;;
	WIRESHARK_PLUGIN_DIR=*) WIRESHARK_PLUGIN_DIR=${argument#*=} ;;
	*)
		echo "install.sh: $argument: unknown; nothing was changed (--help)" >&2
		exit 2
		;;
	esac
done

prefix=${PREFIX:-/usr/local}
root=${DESTDIR:-}
tc=${TC_LIB_DIR:-/usr/lib/x86_64-linux-gnu/tc}
wireshark=${WIRESHARK_PLUGIN_DIR:-/usr/lib/x86_64-linux-gnu/wireshark/plugins}
for path in "$prefix" "$tc" "$wireshark" "${root:-/}"; do
	case $path in
	/*) ;;
	*)
		echo "install.sh: $path: not a path from / on; nothing was changed" >&2
		exit 2
		;;
	esac
done
cd "$(dirname "$0")"
release=$(basename "$PWD")
modules=/lib/modules/$release/updates

if [ -z "$root" ] && [ "$(id -u)" != 0 ]; then
	echo "install.sh: must be root (or set DESTDIR)" >&2
	exit 1
fi
if [ -z "$root" ] && [ "$action" = install ] && [ ! -d "/lib/modules/$release" ]; then
	echo "install.sh: this machine has no kernel $release: no /lib/modules/$release" >&2
	exit 1
fi

# How, what, and where to. One file is tc's plugin for all kinds; tc looks for a file of each name.
files() {
	for module in sch_turnstile.ko* turnstile.ko*; do
		echo "644 $module $modules/$module"
	done
	cat <<-END
		755 turnstile $prefix/sbin/turnstile
		644 q_turnstile.so $tc/q_turnstile.so
		link q_turnstile.so $tc/q_turnstile_mq.so
		link q_turnstile.so $tc/q_turnstile_pacer.so
		644 turnstile.8 $prefix/share/man/man8/turnstile.8
		644 tc-turnstile.8 $prefix/share/man/man8/tc-turnstile.8
		644 tc-turnstile_pacer.8 $prefix/share/man/man8/tc-turnstile_pacer.8
		644 turnstile.bash $prefix/share/bash-completion/completions/turnstile
		644 turnstile.zsh $prefix/share/zsh/site-functions/_turnstile
		644 turnstile.fish $prefix/share/fish/vendor_completions.d/turnstile.fish
		644 turnstile.lua $wireshark/turnstile.lua
	END
}

if [ "$action" = uninstall ] && [ ! -e "$root$prefix/sbin/turnstile" ]; then
	echo "install.sh: nothing is installed below $root$prefix: give the PREFIX of then" >&2
	exit 1
fi

# Modules of an earlier installation may be compressed in another way.
for name in sch_turnstile turnstile; do
	rm -f "$root$modules/$name.ko" "$root$modules/$name.ko".*
done
files | while read -r how what where; do
	case $action:$how in
	install:link) ln -sf "$what" "$root$where" ;;
	install:*) install -D -m "$how" "$what" "$root$where" ;;
	uninstall:*)
		rm -f "$root$where"
		# A machine's own folders stay, empty or not.
		if [ -n "$root" ] && [ -d "$root" ]; then
			folder=$(dirname "$where")
			(cd "$root" && rmdir -p --ignore-fail-on-non-empty ".$folder" 2> /dev/null) || true
		fi
		;;
	esac
done
if [ -z "$root" ]; then
	depmod "$release"
fi
case $action in
install) echo "installed for kernel $release; load with: modprobe -a sch_turnstile turnstile" ;;
uninstall) echo "uninstalled for kernel $release" ;;
esac
