#include <algorithm>

#include "checkpoints/pickle.h"
#include "checkpoints/weights_readers.h"
#include "checkpoints/zip_archive.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using Kind = PickleValue::Kind;

/// A tensor's storage, of which only the latest is kept: those that share one follow each other.
class Storages {
 public:
  Storages(const ZipArchive& archive, std::string folder)
      : archive_(archive), folder_(std::move(folder)) {}

  const std::vector<std::uint8_t>& bytes(const std::string& key) {
    if (key != key_) {
      bytes_ = archive_.read(folder_ + "data/" + key);
      key_ = key;
    }
    return bytes_;
  }

 private:
  const ZipArchive& archive_;
  std::string folder_;
  std::string key_;
  std::vector<std::uint8_t> bytes_;
};

std::vector<std::int64_t> integers_of(const PickleValue& value) {
  std::vector<std::int64_t> integers;
  for (const auto* item : value.items) integers.push_back(item->integer);
  return integers;
}

/// Where each element of a strided tensor lies, row by row.
struct Strided {
  std::vector<std::int64_t> shape, stride;
  std::int64_t offset = 0;
  std::int64_t elements = 1;
  bool fits = false;  // every element lies within the storage, of which none may serve twice

  Strided(const PickleValue& tensor, std::int64_t stored)
      : shape(integers_of(*tensor.items[2])),
        stride(integers_of(*tensor.items[3])),
        offset(tensor.items[1]->integer) {
    fits = offset >= 0 && offset <= stored;
    std::int64_t last = offset;
    for (std::size_t i = 0; i < shape.size() && fits; ++i) {
      if (shape[i] <= 1) stride[i] = 0;  // of no meaning
      std::int64_t reach = 0;
      fits = shape[i] >= 0 && stride[i] >= 0 &&
             !__builtin_mul_overflow(elements, shape[i], &elements) &&
             !__builtin_mul_overflow(std::max<std::int64_t>(shape[i] - 1, 0), stride[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    fits = fits && elements <= stored && (elements == 0 || last < stored);
  }

  bool contiguous() const {
    if (elements == 0) return true;
    std::int64_t expected = 1;
    for (std::size_t i = shape.size(); i-- > 0; expected *= shape[i]) {
      if (shape[i] != 1 && stride[i] != expected) return false;
    }
    return true;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    std::vector<std::int64_t> index(shape.size(), 0);
    std::int64_t at = offset;
    for (std::int64_t i = 0; i < elements; ++i) {
      visit(at);
      for (std::size_t d = shape.size(); d-- > 0;) {
        at += stride[d];
        if (++index[d] < shape[d]) break;
        at -= stride[d] * shape[d];
        index[d] = 0;
      }
    }
  }
};

WeightTensor read_tensor(const fs::path& path,
                         const std::string& name,
                         const PickleValue& tensor,
                         Storages& storages) {
  const auto rule = [&](bool holds, const auto&... parts) {
    require_environment(holds, "PyTorch", "'", path.string(), "': \"", name, "\" ", parts...);
  };
  const PickleValue& storage = *tensor.items[0];
  const auto& bytes = storages.bytes(storage.text);
  const std::int64_t size = bytes_of(storage.element);
  rule(std::ssize(bytes) % size == 0 && std::ssize(bytes) / size == storage.integer,
       "needs a storage of ",
       storage.integer,
       " elements of ",
       size,
       " bytes, received ",
       bytes.size(),
       " bytes");
  const Strided strided(tensor, storage.integer);
  rule(strided.fits, "needs a shape and strides within its storage of ", storage.integer);
  WeightTensor result{
      .name = name, .shape = strided.shape, .floating = is_floating(storage.element)};
  const auto stored = std::as_bytes(std::span(bytes));
  const auto part = [&](std::int64_t at, std::int64_t count) {
    return stored.subspan(static_cast<std::size_t>(at * size),
                          static_cast<std::size_t>(count * size));
  };
  if (strided.contiguous()) {
    append_elements(storage.element, part(strided.offset, strided.elements), result);
  } else {
    strided.for_each(
        [&](std::int64_t at) { append_elements(storage.element, part(at, 1), result); });
  }
  return result;
}

bool has_tensors(const PickleValue& value) {
  return value.kind == Kind::dictionary &&
         std::ranges::any_of(value.entries, [](const auto& entry) {
           return entry.first->kind == Kind::text && entry.second->kind == Kind::tensor;
         });
}

const PickleValue* entry_of(const PickleValue& dictionary, std::string_view key) {
  for (const auto& [name, value] : dictionary.entries) {
    if (name->kind == Kind::text && name->text == key) return value;
  }
  return nullptr;
}

/// What it keeps under a customary name (beside which a loss or an accuracy may be a tensor, too),
/// or the top itself.
const PickleValue& state_dict_of(const fs::path& path, const PickleValue& top) {
  std::string keys;
  if (top.kind == Kind::dictionary) {
    for (const auto* key : {"state_dict", "model_state_dict", "model"}) {
      const auto* inner = entry_of(top, key);
      if (inner != nullptr && has_tensors(*inner)) return *inner;
    }
    if (has_tensors(top)) return top;
    for (const auto& [key, value] : top.entries)
      if (key->kind == Kind::text && keys.size() < 100)
        keys += (keys.empty() ? "" : ", ") + key->text;
  }
  throw std::runtime_error(concat("[PyTorch] '",
                                  path.string(),
                                  "': needs tensors by name, or a dictionary that has them as "
                                  "state_dict, model_state_dict or model; received ",
                                  keys.empty() ? "something else" : keys));
}

/// "name/" of the archive's one "name/data.pkl".
std::string folder_of(const fs::path& path, const ZipArchive& archive) {
  constexpr std::string_view pickle = "data.pkl";
  for (const auto& name : archive.names()) {
    if (name.ends_with("/constants.pkl"))
      throw std::runtime_error(concat("[PyTorch] '",
                                      path.string(),
                                      "': is a TorchScript program; save its weights alone: "
                                      "torch.save(model.state_dict(), FILE)"));
  }
  for (const auto& name : archive.names()) {
    if (name.ends_with(concat('/', pickle))) return name.substr(0, name.size() - pickle.size());
  }
  throw std::runtime_error(
      concat("[PyTorch] '", path.string(), "': is a zip archive, but has no data.pkl"));
}

/// Tied weights share a storage; a file of many tensors on one would fill the memory.
std::int64_t most_elements(const fs::path& path) {
  return 8 * static_cast<std::int64_t>(fs::file_size(path));
}

}  // namespace

WeightsFile read_pytorch_weights(const fs::path& path) {
  const ZipArchive archive(path);
  const auto folder = folder_of(path, archive);
  if (std::ranges::find(archive.names(), folder + "byteorder") != archive.names().end()) {
    const auto order = archive.read(folder + "byteorder");
    const std::string text(order.begin(), order.end());
    require_environment(text == "little",
                        "PyTorch",
                        "'",
                        path.string(),
                        "': needs byteorder little, received ",
                        text);
  }
  const auto bytes = archive.read(folder + "data.pkl");
  std::unique_ptr<Pickle> pickle;
  try {
    pickle = read_pickle(bytes);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(
        concat("[PyTorch] '", path.string(), "', ", folder, "data.pkl: ", error.what()));
  }
  WeightsFile file{.format = "PyTorch", .tensors = {}};
  Storages storages(archive, folder);
  const auto most = most_elements(path);
  std::int64_t elements = 0;
  for (const auto& [name, value] : state_dict_of(path, *pickle->top).entries) {
    if (name->kind != Kind::text || value->kind != Kind::tensor) continue;
    file.tensors.push_back(read_tensor(path, name->text, *value, storages));
    const auto& tensor = file.tensors.back();
    elements += std::ssize(tensor.values) + std::ssize(tensor.integers);
    require_environment(elements <= most,
                        "PyTorch",
                        "'",
                        path.string(),
                        "': needs at most ",
                        most,
                        " elements for its size, its tensors repeat one another");
  }
  return file;
}

}  // namespace dimred::checkpoints
