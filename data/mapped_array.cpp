#include "data/mapped_array.h"

#include "checkpoints/npy.h"
#include "data/bytes.h"
#include "data/paths.h"

namespace dimred::data {

MappedArray::MappedArray(const std::filesystem::path& path, std::string_view type) : file(path) {
  const auto header = checkpoints::read_npy_header(path, {type});
  require_environment(!header.fortran_order || header.shape.size() < 2,
                      "[npy] {}: needs C order, received Fortran order; numpy.ascontiguousarray "
                      "makes it",
                      path_text(path));
  shape = header.shape;
  ByteReader bytes(file.bytes(), "npy");
  bytes.take(header.data_offset);
  data = bytes.take(bytes.left());
  file.fetch(data);
}

std::string MappedArray::shape_text() const { return checkpoints::npy_shape_text(shape); }

}  // namespace dimred::data
