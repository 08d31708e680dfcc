#pragma once

#include <filesystem>
#include <string>

#include "support/bytes.h"

// What a file seems to be that no reader takes, so that a refusal can name the remedy.
namespace dimred::data {

/// ", which is ...; what to do" by the file's name and first bytes; empty where they say nothing.
std::string remark_on(const std::filesystem::path& file);

/// Returns the like of a file's or image's bytes alone, as they lie in a record.
std::string remark_on_bytes(Bytes bytes);

/// "; there is NAME, which is ..." of the first file in a folder that there is a remark on, among
/// the first 64 entries, or that has a TFRecord shard's name; empty where there is none. Files that
/// a reader takes are passed over.
std::string remark_on_files_in(const std::filesystem::path& folder);

}  // namespace dimred::data
