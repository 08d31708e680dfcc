#include <unistd.h>

#include <cstdlib>

#include "options/options_file.h"
#include "tests/fuzz/fuzz.h"

// The option file, as TOML and as lines of key=value.
std::vector<std::string> dimred::fuzz::seeds() {
  return {
      "# a comment\nepochs = 3\nmodel = \"resnet20\"\nmean = [0.5, 1, -2e-3]\nnesterov = true\n",
      "a.b.\"c d\" = {x = 1, y = [[1], ['two']]}\n[t.u]\nd = 1979-05-27T07:32:00Z\n[[v]]\n",
      "text = \"\"\"\nmany\nlines\"\"\"\nn = 0xff\nf = inf\n",
      "epochs=3\n  model = resnet20 \n# a comment\nuse_bias=True\n",
      "a = 1\n[,[v]]\n",
      "a = 1\n \xC5\xA4 = \"\"\"\\\n\xC2\xA7\"\"\"\n"};  // letters where white space may stand
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  folder.write("c.toml", {reinterpret_cast<const char*>(data), size});
  static const bool linked =
      ::link((folder.path + "/c.toml").c_str(), (folder.path + "/c.conf").c_str()) == 0;
  if (!linked) std::abort();
  for (const auto* name : {"c.toml", "c.conf"})
    fuzz::bear_errors([&] { read_config_file(folder.path + '/' + name); });
  return 0;
}
