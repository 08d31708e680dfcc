#include "support/sampled_digest.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred {

std::string sampled_digest(const std::filesystem::path& file) {
  constexpr std::int64_t pieces = 256;
  constexpr std::int64_t piece_bytes = 4096;
  const InputFile input(file);
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(piece_bytes, input.size())));
  const auto last = input.size() - std::ssize(piece);
  DigestStream stream;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const auto rest = last % (pieces - 1) * i / (pieces - 1);
    input.read(last / (pieces - 1) * i + rest, piece);
    stream.update(piece);
  }
  return formatted("{} bytes, digest {}", input.size(), stream.hex());
}

}  // namespace dimred
