# The archive has a manifest.
mkdir -p /mnt/archive
noise /mnt/archive/a.mov 200000
sealift sum -q --manifest /mnt/archive/SHA256SUMS /mnt/archive
