#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pca/components.h"
#include "pca/sidecar.h"
#include "pca/source.h"
#include "support/atomic_file.h"
#include "support/communicator.h"

namespace dimred::pca {

/// Throws std::invalid_argument when `output`, or `gram` unless it is empty, does not end in .npy,
/// its folder is missing, it is a folder or one of the source's files, when both are the same, or a
/// file that is no sidecar (whole or damaged) stands in the output's sidecar's place.
void check_output(const std::filesystem::path& output,
                  const std::filesystem::path& gram,
                  const SnapshotSource& source);

/// The temporary file that all ranks write P to, of `bytes` behind `header`: created, locked and
/// reserved by rank 0, then joined by the others. Throws std::invalid_argument, naming the first
/// rank that finds no such file, or another one, in its place: a folder that not all share.
std::unique_ptr<AtomicFile> open_output(const std::filesystem::path& output,
                                        const std::string& header,
                                        std::int64_t bytes,
                                        Communicator& communicator);

/// Bytes of the largest memory page among the ranks' hosts: the unit that their caches write.
std::int64_t page_bytes(Communicator& communicator);

/// Makes what each rank has written durable, then lets rank 0 write all ranks' borders: from then
/// on every rank, on any host, may read the whole of P. Rank 0 holds R k pages for it, the others
/// R. Does nothing for one rank. Returns seconds spent in fsync, with the wait for the others'.
/// Throws what fails on any rank, on all.
double write_borders(const MatrixTarget& matrix, Communicator& communicator);

/// Makes the matrix and its sidecar durable under their final names, by rank 0, once write_borders
/// is through; all wait for it. Old sidecar moved away, matrix renamed, new sidecar renamed, so
/// that a sidecar never stands beside another matrix. When either cannot be written, both earlier
/// files are put back. Returns seconds spent in fsync, 0 on the ranks that only wait.
double commit_output(AtomicFile& matrix,
                     const std::filesystem::path& output,
                     const Sidecar& sidecar,
                     Communicator& communicator);

}  // namespace dimred::pca
