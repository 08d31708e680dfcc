#include "checkpoints/pytorch_weights.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "checkpoints/read_pickle.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
/// A file without a name, so that it is gone with us however we end.
class NamelessFile {
 public:
  NamelessFile() {
    auto name = (folder() / "dimred-XXXXXX").string();
    const int descriptor = mkstemp(name.data());
    check(descriptor >= 0);
    unlink(name.c_str());
    file_.reset(fdopen(descriptor, "wb"));
  }
  void append(ByteView bytes) {
    check(std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size());
  }
  void flush() { check(std::fflush(file_.get()) == 0); }
  fs::path path() const { return formatted("/proc/self/fd/{}", fileno(file_.get())); }

 private:
  static fs::path folder() {
    const auto given = environment_text("TMPDIR");
    return given.empty() ? "/tmp" : given;
  }
  static void check(bool holds) {
    require_environment(holds,
                        "[PyTorch] cannot write a temporary file in {}, which $TMPDIR replaces: {}",
                        folder(),
                        std::strerror(errno));
  }

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
};

}  // namespace

WeightsFile read_pytorch_weights(const fs::path& path) {
  NamelessFile tensors;
  read_pickle("weights", "PyTorch", path, [&](auto bytes) { tensors.append(bytes); });
  tensors.flush();
  try {
    auto file = read_safetensors_weights(tensors.path());
    file.format = "PyTorch";
    return file;
  } catch (const std::runtime_error& error) {
    const std::string_view text = error.what();  // "[safetensors] 'its path': ..."
    fail_environment("[PyTorch] '{}{}", path, text.substr(std::min(text.find("': "), text.size())));
  }
}

}  // namespace dimred::checkpoints
