# cmake -DFILE=program -P set_runpath.cmake: what lies beside it, in place of the build's folders.
file(RPATH_SET FILE "${FILE}" NEW_RPATH "$ORIGIN/../lib")
