#include "checkpoints/digest.h"

#include <algorithm>
#include <vector>

#include "checkpoints/atomic_file.h"
#include "support/errors.h"

namespace dimred::checkpoints {

std::string file_digest(const std::filesystem::path& file, std::int64_t offset) {
  const InputFile input(file);
  require_environment(offset >= 0 && offset <= input.size(),
                      "digest",
                      "'",
                      file.string(),
                      "' needs at least ",
                      offset,
                      " bytes, received ",
                      input.size());
  std::vector<std::byte> part(1 << 20);
  DigestStream stream;
  while (offset < input.size()) {
    const auto size = std::min<std::int64_t>(input.size() - offset, std::ssize(part));
    const auto bytes = std::span(part).first(static_cast<std::size_t>(size));
    input.read(offset, bytes);
    stream.update(bytes);
    offset += size;
  }
  return stream.hex();
}

}  // namespace dimred::checkpoints
