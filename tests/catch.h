#pragma once

// Catch2 v2 (Debian 12) or v3.
#if defined(LYNX_CATCH2_V3)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
