#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/bytes.h"

namespace dimred::checkpoints {

/// A file that read_pickle() does not take.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Hands a file to checkpoints/read_pickle.py, which the program holds as a text, and its output to
/// `sink`. Nothing in the file is run. `kind`: "pairs" (the numbers of pairs and of each image's
/// bytes as int64, a byte for each pair, the images), "archive" (a zip archive whose CRCs are
/// compared -> nothing) or one of read_pickle_json(). Python is $DIMRED_PYTHON, else the default
/// one. Throws Unreadable("[scope] 'file': ...") for a file that is refused or damaged,
/// std::invalid_argument for one that does not hold what is asked, std::runtime_error where Python
/// cannot be run.
void read_pickle(std::string_view kind,
                 std::string_view scope,
                 const std::filesystem::path& file,
                 const ByteSink& sink);

/// The places of tensors, as read_pickle.py describes them for the kinds "table" (a PyTorch file),
/// "table of raw" and "table of averaged" (OpenOptions::take), "distributed" (the .metadata of a
/// distributed checkpoint), "fsdp", "deepspeed_model" and "deepspeed_optimizer" (a rank's file).
/// Throws as read_pickle().
nlohmann::json read_pickle_json(std::string_view kind,
                                std::string_view scope,
                                const std::filesystem::path& file);

/// Makes `program` the default Python of read_pickle() in the place of the python3 of $PATH, which
/// an empty text leaves. To be called before other threads read files.
void set_default_python(const std::string& program);

}  // namespace dimred::checkpoints
