#include "data/open.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string array(const std::string& type, const std::string& shape, const std::string& data) {
  const auto dict = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(dict.size()) + '\0' + dict + data;
}

}  // namespace

// The images, or the labels beside them, by the first byte.
std::vector<std::string> dimred::fuzz::seeds() {
  return {'i' + array("|u1", "(2, 1, 2, 3)", "abcdefghijkl"),
          'i' + array("|u1", "(2, 2, 3)", "abcdefghijkl"),
          'l' + array("<i8", "(2,)", std::string(15, '\0') + '\1')};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  const std::string text(data + (size > 0), data + size);
  const bool labels = size > 0 && data[0] == 'l';
  folder.write("images.npy", labels ? array("|u1", "(2, 2, 3)", "abcdefghijkl") : text);
  folder.write("labels.npy", labels ? text : array("<i8", "(2,)", std::string(16, '\0')));
  fuzz::bear_errors([&] {
    const auto dataset = data::open_dataset({.kind = "npy", .path = folder.path}, /*train=*/true);
    std::vector<std::uint8_t> scratch;
    for (std::int64_t i = 0; i < dataset->size(); ++i)
      if (dataset->read(i, scratch).label >= dataset->classes()) __builtin_trap();
  });
  return 0;
}
