#pragma once

#include "support/atomic_file.h"

// Files that are whole or absent, under the names this room and those above it use.
namespace dimred::checkpoints {

using dimred::AtomicFile;
using dimred::create_folders;
using dimred::InputFile;
using dimred::read_exactly;
using dimred::remove_stale_temporaries;
using dimred::sync_file;
using dimred::sync_folder;
using dimred::write_file_atomically;

}  // namespace dimred::checkpoints
