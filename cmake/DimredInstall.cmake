# The programs with their private libraries, and the recipes: cmake --install build --prefix FOLDER.
# LibTorch stays where it was found; a packager sets CMAKE_INSTALL_RPATH for another place.
include(GNUInstallDirs)

set(programs dimred)
set(libraries dimred_pca)
if(DIMRED_TRAINERS)
  list(APPEND programs dimred-train)
  set(torch_libraries ${TORCH_INSTALL_PREFIX}/lib)
endif()
if(TARGET dimred_cuda_library)
  list(APPEND libraries dimred_cuda_library)
endif()
if(TARGET dimred_arrow)
  list(APPEND libraries dimred_arrow)
endif()
add_custom_target(programs DEPENDS ${programs} ${libraries})

foreach(target IN LISTS programs libraries)
  get_target_property(places ${target} BUILD_RPATH)
  if(NOT places)
    set(places)
  endif()
  set_target_properties(${target} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${places};${torch_libraries}")
endforeach()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# dimred looks for its libraries in lib/ beside its own folder.
install(TARGETS ${libraries} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY experiments/recipes experiments/comparisons DESTINATION ${CMAKE_INSTALL_DATADIR}/dimred)
