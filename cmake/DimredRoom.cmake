# A room is a folder, a namespace and a target: dimred_room(pca LINKS checkpoints). Its sources are all
# .cpp files of the folder, so a new file needs no line here, or ONLY those named, where a folder holds
# several targets. EXCEPT leaves files out, ALSO adds some: a variant that was chosen, a file of another
# folder. LINKS names rooms (each must be defined already, so links only point downward); LIBRARIES names
# others.

add_library(dimred_flags INTERFACE)
# Designated initialisers leave the other fields at their defaults on purpose; the "maybe" warning is
# wrong about torch's reference counts under -O3, and -Wrestrict about "text" + string (GCC 105651).
target_compile_options(dimred_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra $<$<BOOL:${DIMRED_WERROR}>:-Werror> -Wno-missing-field-initializers -Wno-maybe-uninitialized
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>>)
# g++ collects its garbage when the heap has doubled, which costs a tenth of an object's time; with 1 GB
# to begin with it hardly ever does, and needs 10 % more memory.
set(dimred_lazy_collection $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
target_compile_options(dimred_flags INTERFACE ${dimred_lazy_collection})
# The rooms that the subject rests on lie in lib/: a second include directory, so that all are named alike.
set(dimred_include_directories ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/lib)
target_include_directories(dimred_flags INTERFACE ${dimred_include_directories})

function(dimred_room name)
  cmake_parse_arguments(ROOM "SHARED" "" "ONLY;EXCEPT;ALSO;LINKS;LIBRARIES" ${ARGN})
  foreach(lower ${ROOM_LINKS})
    if(NOT TARGET dimred_${lower})
      message(FATAL_ERROR "room ${name} links ${lower}, which is not below it")
    endif()
  endforeach()
  list(TRANSFORM ROOM_LINKS PREPEND dimred_)
  set(sources ${ROOM_ONLY})
  if(NOT sources)
    file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  endif()
  list(REMOVE_ITEM sources ${ROOM_EXCEPT})
  list(APPEND sources ${ROOM_ALSO})
  if(ROOM_SHARED)
    add_library(dimred_${name} SHARED ${sources})
  else()
    add_library(dimred_${name} STATIC ${sources})
  endif()
  target_link_libraries(dimred_${name} PUBLIC ${ROOM_LINKS} ${ROOM_LIBRARIES} PRIVATE dimred_flags)
  target_include_directories(dimred_${name} PUBLIC ${dimred_include_directories})
endfunction()

# Files that are compiled for another processor, with other flags or under another language's rules are no part of a
# unity build.
function(dimred_no_unity)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
