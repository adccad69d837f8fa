"""``hcgr-validate --calibrate``: the same instructions and cases on a real GPU and in the emulator, bit against bit.

snippet     an instruction vector as data; the kernel that loads its state, runs it and stores what came out
assemble    kernel text to a code object, with whatever assembler is there
hip_module  code object to GPU: one small interface, which a stand-in can take the place of
differ      two results, element by element: bits and ULPs
vectors     worker side: the conformance tests of one file, each call of their harness on both
kernels     worker side: one kernel case on one device, its outputs kept
run         the parent: spreads the work, survives what is lost, and makes the report's part

It grades the emulator, never the code under test: the verdict of a report does not depend on it.
"""
