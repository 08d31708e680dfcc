#include "data/class_names.h"
#include "data/image_files.h"
#include "data/record_readers.h"
#include "tests/fuzz/fuzz.h"

// label.txt ("path label"), labels.txt (names) and file_list.txt.
std::vector<std::string> dimred::fuzz::seeds() {
  return {"a.jpg 0\nb c.png 1\r\n\nd.jpg\t2\n", "a.jpg cat\nb.jpg dog\n", "0:cat\n1:dog\n2:a b\n"};
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dimred;
  static const fuzz::Folder folder;
  folder.write("label.txt", {data, data + size});
  fuzz::bear_errors([&] {
    const auto dataset = data::open_image_list(folder.path + "/label.txt");
    std::size_t letters = dataset->description().size();
    for (std::int64_t i = 0; i < dataset->size(); ++i) letters += dataset->origin(i).size();
    if (letters == 0) __builtin_trap();
  });
  fuzz::bear_errors([&] { data::read_class_names(folder.path + "/label.txt"); });
  fuzz::bear_errors([&] { data::read_file_list(folder.path + "/label.txt"); });
  return 0;
}
