#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Installs what lies beside this script: the modules for the kernel release that the folder is named
# after, the turnstile command, tc's plugin, man pages and completions. DESTDIR=FOLDER installs into
# that folder instead.
set -eu
cd "$(dirname "$0")"
release=$(basename "$PWD")
to=${DESTDIR:-}

if [ -z "$to" ] && [ "$(id -u)" != 0 ]; then
	echo "install.sh: must be root (or set DESTDIR)" >&2
	exit 1
fi
if [ ! -d "$to/lib/modules/$release" ] && [ -z "$to" ]; then
	echo "install.sh: no kernel $release on this machine: /lib/modules/$release does not exist" >&2
	exit 1
fi

for module in sch_turnstile turnstile; do
	install -D -m 644 $module.ko "$to/lib/modules/$release/updates/$module.ko"
done
install -D -m 755 turnstile "$to/usr/local/sbin/turnstile"
# Debian's tc looks here; another one may have been built with another folder (TC_LIB_DIR overrides
# it).
install -D -m 644 q_turnstile.so "$to/usr/lib/x86_64-linux-gnu/tc/q_turnstile.so"
# One file has both kinds; tc looks for a file of each name.
ln -sf q_turnstile.so "$to/usr/lib/x86_64-linux-gnu/tc/q_turnstile_pacer.so"
install -D -m 644 turnstile.8 "$to/usr/local/share/man/man8/turnstile.8"
install -D -m 644 tc-turnstile.8 "$to/usr/local/share/man/man8/tc-turnstile.8"
install -D -m 644 tc-turnstile_pacer.8 "$to/usr/local/share/man/man8/tc-turnstile_pacer.8"
install -D -m 644 turnstile.bash "$to/usr/share/bash-completion/completions/turnstile"
install -D -m 644 turnstile.zsh "$to/usr/local/share/zsh/site-functions/_turnstile"
install -D -m 644 turnstile.fish "$to/usr/share/fish/vendor_completions.d/turnstile.fish"
if [ -z "$to" ]; then
	depmod "$release"
fi
echo "installed for kernel $release; load them with: modprobe -a sch_turnstile turnstile"
