#include <zlib.h>

#include <array>
#include <cstring>

#include "checkpoints/weights_readers.h"
#include "tests/fuzz/fuzz.h"

// The pickle of torch.save's archive: the input is data.pkl, beside two sound storages.
namespace {

using dimred::checkpoints::WeightTensor;

template <class Number>
void put(std::string& text, Number number) {
  std::array<char, sizeof number> bytes;
  std::memcpy(bytes.data(), &number, sizeof number);
  text.append(bytes.data(), bytes.size());
}

/// A zip archive of stored records. Format: PKWARE's APPNOTE 4.3.7, 4.3.12 and 4.3.16.
class Archive {
 public:
  void add(const std::string& name, std::string_view content) {
    const auto offset = static_cast<std::uint32_t>(records_.size());
    std::string common;
    put<std::uint32_t>(common, 20);  // version 2.0, no flags
    put<std::uint16_t>(common, 0);   // stored
    put<std::uint32_t>(common, 0x210000);
    const auto* bytes = reinterpret_cast<const Bytef*>(content.data());
    put(common, static_cast<std::uint32_t>(crc32_z(0, bytes, content.size())));
    put(common, static_cast<std::uint32_t>(content.size()));
    put(common, static_cast<std::uint32_t>(content.size()));
    put(common, static_cast<std::uint16_t>(name.size()));
    put<std::uint16_t>(common, 0);
    records_.append("PK\3\4").append(common).append(name).append(content);
    directory_.append("PK\1\2").append("\24\0", 2).append(common).append(10, '\0');
    put(directory_, offset);
    directory_ += name;
    ++count_;
  }

  std::string bytes() const {
    std::string all = records_ + directory_ + std::string("PK\5\6\0\0\0\0", 8);
    put(all, count_);
    put(all, count_);
    put(all, static_cast<std::uint32_t>(directory_.size()));
    put(all, static_cast<std::uint32_t>(records_.size()));
    put<std::uint16_t>(all, 0);
    return all;
  }

 private:
  std::string records_, directory_;
  std::uint16_t count_ = 0;
};

std::int64_t elements_of(const WeightTensor& tensor) {
  std::int64_t elements = 1;
  for (const auto extent : tensor.shape) elements *= extent;
  return elements;
}

}  // namespace

// torch.save({'model': {'a': w[:6].view(2, 3), 'b': w[6:].view(2, 5).t(), 'n': tensor(7)}, ...})
// and torch.save(OrderedDict(w=Parameter(w.half())), pickle_protocol=4), w of 16 numbers.
std::vector<std::string> dimred::fuzz::seeds() {
  return {
      std::string("\200\002}q\000(X\005\000\000\000modelq\001}q\002(X\001\000\000\000aq\003ctorch"
                  "._utils\012_rebuild_tensor_v2\012q\004((X\007\000\000\000storageq\005ctorch"
                  "\012FloatStorage\012q\006X\001\000\000\0000q\007X\003\000\000\000cpuq\010K\020"
                  "tq\011QK\000K\002K\003\206q\012K\003K\001\206q\013\211ccollections\012OrderedD"
                  "ict\012q\014)Rq\015tq\016Rq\017X\001\000\000\000bq\020h\004((h\005h\006h\007h"
                  "\010K\020tq\021QK\006K\005K\002\206q\022K\001K\005\206q\023\211h\014)Rq\024tq"
                  "\025Rq\026X\001\000\000\000nq\027h\004((h\005ctorch\012LongStorage\012q\030X"
                  "\001\000\000\0001q\031h\010K\001tq\032QK\000))\211h\014)Rq\033tq\034Rq\035uX"
                  "\005\000\000\000epochq\036K\003u.",
                  321),
      std::string("\200\004\225\267\000\000\000\000\000\000\000\214\013collections\224\214\013Ord"
                  "eredDict\224\223\224)R\224\214\001w\224\214\014torch._utils\224\214\022_rebuil"
                  "d_parameter\224\223\224h\005\214\022_rebuild_tensor_v2\224\223\224((\214\007st"
                  "orage\224\214\005torch\224\214\013HalfStorage\224\223\224\214\0010\224\214\003"
                  "cpu\224K\020t\224QK\000K\020\205\224K\001\205\224\211h\002)R\224t\224R\224\210"
                  "h\002)R\224\207\224R\224s.",
                  194)};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  static const std::string storage(64, '\1');
  Archive archive;
  archive.add("a/data.pkl", {reinterpret_cast<const char*>(data), size});
  archive.add("a/data/0", storage);
  archive.add("a/data/1", storage.substr(0, 8));
  const auto bytes = archive.bytes();
  const auto path =
      fuzz::file_with({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  fuzz::bear_errors([&] {
    for (const auto& tensor : checkpoints::read_pytorch_weights(path).tensors) {
      const auto held = tensor.floating ? std::ssize(tensor.values) : std::ssize(tensor.integers);
      if (held != elements_of(tensor)) __builtin_trap();
    }
  });
  return 0;
}
