# SPDX-License-Identifier: Apache-2.0
# Finds xxHash by header and library, because not every build of it brings a package: target XxHash::xxhash, XxHash_VERSION.
find_path(XxHash_INCLUDE_DIR xxhash.h)
find_library(XxHash_LIBRARY xxhash)
include(FlotillaImported)
flotilla_import(XxHash XxHash::xxhash xxhash.h XXH_VERSION)
