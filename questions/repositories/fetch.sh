#!/usr/bin/env bash
# Fetch the repositories that are searched, each in its version: bash questions/repositories/fetch.sh DIR
# Needs pip, npm, and apt of Debian 12 with sources of the types deb and deb-src.
set -euo pipefail

directory=$(realpath --canonicalize-missing "${1:?where to}")
mkdir -p "$directory"
downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT

# Unpack the only archive in the current directory, without its outermost directory.
unpack() {
    mkdir -p "$directory/$1"
    tar -xf "$(ls)" -C "$directory/$1" --strip-components 1
}

pypi() {
    pip download --quiet --no-deps --no-binary "$1" "$1==$2"
    unpack "$1"
}

# The fourth argument is the directory of what is compiled, which is removed.
npm_package() {
    npm pack --silent "$2@$3"
    unpack "$1"
    rm -rf "${directory:?}/$1/${4:-dist}"
}

# The third argument is the name of the package, if it is not that of the directory.
debian_source() {
    apt-get source --quiet --download-only "${3:-$1}=$2"
    dpkg-source --no-check --no-copy --extract ./*.dsc "$directory/$1"
    rm -rf "${directory:?}/$1/debian" "$directory/$1/.pc" "$directory/$1/vendor"
}

# Take a collection, NAMESPACE/NAME, out of a release of Ansible.
ansible_collection() {
    pip download --quiet --no-deps --no-binary ansible "ansible==$2"
    mkdir -p "$directory/$1"
    tar -xf ./*.tar.gz -C "$directory/$1" --strip-components 4 "ansible-$2/ansible_collections/$3"
}

# Take a directory of a package: usr/share/NAME, or the third argument.
debian_package() {
    apt-get download --quiet "$1=$2"
    dpkg-deb --extract ./*.deb unpacked
    mv "unpacked/${3:-usr/share/$1}" "$directory/$1"
}

while read -r registry name arguments; do
    if [ -e "$directory/$name" ]; then continue; fi
    mkdir "$downloads/$name"
    # shellcheck disable=SC2086
    (cd "$downloads/$name" && "$registry" "$name" $arguments </dev/null)
done <<'END'
pypi datasette 0.65.5
pypi maturin 1.9.6
pypi mkdocs 1.6.1
pypi pdm 2.29.4
npm_package trpc @trpc/server 11.6.0
npm_package undici undici 7.16.0
debian_source caddy 2.6.2-5
debian_source jedit 5.5.0+dfsg-2
debian_source lighttpd 1.4.69-1
debian_source ninja-build 1.11.1-2~deb12u1
debian_source puma 5.6.5-3+deb12u1
debian_package shaarli 0.12.1+dfsg-8+deb12u2
npm_package mobx mobx 7.1.3
npm_package yjs yjs 13.6.33
debian_source hikaricp 2.7.9-1
debian_source jansson 2.14-2
debian_source lf 28-1
debian_source mosh 1.4.0-1
debian_source php-nikic-fast-route 1.3.0-4
debian_source rust-fd-find 8.6.0-3
debian_source supervisor 4.2.5-1
debian_source freewnn 1.1.1~a021+cvs20130302-7
debian_source ddskk 17.1+0.20221030-2
debian_source dtkwidget 5.5.48-1
debian_source eiskaltdcpp 2.4.2-1
debian_source gosa 2.8~git20230203.10abe45+dfsg-1+deb12u2
debian_source code-saturne 6.0.2-2
debian_source latte-dock 0.10.9-1
debian_source kotlinx-coroutines 1.0.1-2
debian_source nasm 2.16.01-1
debian_source postgis 3.3.2+dfsg-1
pypi apprise 2.3.0
pypi dask-kubernetes 2026.3.0
pypi django-anymail 15.2
pypi emcee 3.1.6
pypi kolla-ansible 16.0.0
pypi social-auth-core 7.0.0
ansible_collection community-docker 8.7.0 community/docker
npm_package matrix-react-sdk matrix-react-sdk 3.114.0 lib
debian_source cargo 0.66.0+ds1-1
debian_source docker-registry 2.8.2+ds1-1
debian_source go-discover 0.0+git20190905.34a6505-2 golang-github-hashicorp-go-discover
debian_source josm 0.0.svn18646+dfsg-1
debian_source mpv 0.35.1-4
debian_source redmine 5.0.4-5+deb12u1
debian_source sox 14.4.2+git20190427-3.5
debian_source step-certificates 0.19.0-1 golang-github-smallstep-certificates
debian_source tiled-qt 1.8.2-1
debian_source weechat 3.8-1
debian_package ruby-faraday 1.1.0-7 usr/share/rubygems-integration/all/gems/faraday-1.1.0
END
