#if !defined(LYNX_CATCH2_V3)
#define CATCH_CONFIG_MAIN
#endif
#include "tests/catch.h"
