#include "data/gz_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "support/errors.h"

namespace dimred::data {

GzFile::GzFile(std::filesystem::path path, const char* scope)
    : path_(std::move(path)), scope_(scope), file_(gzopen(path_.c_str(), "rb"), gzclose_r) {
  require_environment(file_ != nullptr, "[{}] {}: {}", scope_, path_, std::strerror(errno));
  gzbuffer(file_.get(), 1 << 18);
}

std::size_t GzFile::read(std::span<std::uint8_t> out) {
  constexpr std::size_t part = 1 << 30;  // gzread counts in int
  std::size_t done = 0;
  while (done < out.size()) {
    const unsigned wanted = std::min(part, out.size() - done);
    const int got = gzread(file_.get(), out.data() + done, wanted);
    int code = Z_OK;
    std::string_view text = gzerror(file_.get(), &code);
    if (code == Z_ERRNO) text = std::strerror(errno);
    if (text.starts_with(path_.string() + ": ")) text.remove_prefix(path_.string().size() + 2);
    require_environment(got >= 0 && (code == Z_OK || code == Z_STREAM_END),
                        "[{}] {}, offset {}: the compressed file is damaged or incomplete: {}",
                        scope_,
                        path_,
                        gzoffset(file_.get()),
                        text);
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace dimred::data
