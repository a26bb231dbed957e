# For the crate faiss-sys, whose CMake build is Faiss. Tests take Faiss at -O1: at CMake's -O3 it costs twice the
# processor time to compile, four times for one file.
if("$ENV{PROFILE}" STREQUAL "debug")
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG" CACHE STRING "")
endif()
