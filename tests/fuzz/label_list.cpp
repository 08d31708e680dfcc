#include "data/class_names.h"
#include "data/image_files.h"
#include "data/record_readers.h"
#include "data/shard_names.h"
#include "tests/fuzz/fuzz.h"

// label.txt ("path label"), labels.txt (names) and file_list.txt.
std::vector<std::string> dimred::fuzz::seeds() {
  return {"a.jpg 0\nb c.png 1\r\n\nd.jpg\t2\n", "a.jpg cat\nb.jpg dog\n", "0:cat\n1:dog\n2:a b\n"};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  bear_errors([&] {
    const auto dataset = data::image_files(data::parse_image_list(text, "label.txt"));
    std::size_t letters = dataset->description().size();
    for (std::int64_t i = 0; i < dataset->size(); ++i) letters += dataset->origin(i).size();
    if (letters == 0) __builtin_trap();
  });
  bear_errors([&] { data::parse_class_names(text, "labels.txt"); });
  bear_errors([&] {
    data::parse_file_list(text, "file_list.txt", [](const auto& path) { return !path.empty(); });
  });
  return 0;
}
