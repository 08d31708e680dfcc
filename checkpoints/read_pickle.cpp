#include "checkpoints/read_pickle.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/program.h"
#include "support/text.h"

namespace dimred::checkpoints {

extern const char* const read_pickle_text;  // made of read_pickle.py by CMake

namespace {

constexpr int refused = 3, unfit = 4;  // read_pickle.py's exit codes

std::string& default_python() {
  static std::string program = "python3";
  return program;
}

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.find_last_of('\n') + 1));
}

}  // namespace

void read_pickle(std::string_view kind,
                 std::string_view scope,
                 const std::filesystem::path& file,
                 const ByteSink& sink) {
  const auto given = environment_text("DIMRED_PYTHON");
  const auto python = given.empty() ? default_python() : given;
  // Without the user's modules: the text needs Python's own alone.
  const std::vector<std::string> words{
      python, "-I", "-S", "-c", read_pickle_text, std::string(kind), file.string()};
  const auto end = run_program(words, /*timeout=*/0, sink);
  const auto prefix = formatted("[{}] '{}': ", scope, file);
  if (end.code == refused)
    throw Unreadable(prefix + last_line(end.errors) + InputFile(file).placeholder_remark());
  if (end.code == unfit) throw std::invalid_argument(prefix + last_line(end.errors));
  if (end.started && end.code == 0) return;
  fail_environment(
      "{}can be read only with Python ($DIMRED_PYTHON, else python3); {}",
      prefix,
      end.errors.empty() ? formatted("{} ended with {}", python, end.code) : last_line(end.errors));
}

nlohmann::json read_pickle_json(std::string_view kind,
                                std::string_view scope,
                                const std::filesystem::path& file) {
  std::string text;
  read_pickle(kind, scope, file, [&](ByteView bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return parse_json(text, formatted("[{}] '{}'", scope, file), own_json_limits);
}

void set_default_python(const std::string& program) {
  if (!program.empty()) default_python() = program;
}

}  // namespace dimred::checkpoints
