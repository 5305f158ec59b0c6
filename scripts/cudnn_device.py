#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The properties of this machine's first GPU, as cuDNN 9.8 or later serialises them: JSON with which plans of its graph API
can be built where there is no GPU.

    python3 scripts/cudnn_device.py OUTPUT.json

cuDNN is looked for below python3's packages (nvidia/cudnn/lib), then by the loader.
"""
import ctypes
import glob
import sys

# Names and numbers of cudnn_graph.h.
DEVICEPROP_DESCRIPTOR = 38
ATTR_DEVICE_ID, ATTR_JSON = 2700, 2702
TYPE_INT32, TYPE_CHAR = 23, 24


def library():
    packaged = [path for folder in sys.path for path in glob.glob(folder + "/nvidia/cudnn/lib/libcudnn.so.9")]
    return ctypes.CDLL((packaged + ["libcudnn.so.9"])[0])


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    cudnn = library()
    cudnn.cudnnGetErrorString.restype = ctypes.c_char_p

    def call(name, *arguments):
        status = getattr(cudnn, name)(*arguments)
        if status != 0:
            sys.exit(f"cudnn_device: {name} failed: {cudnn.cudnnGetErrorString(status).decode()}")

    properties = ctypes.c_void_p()
    call("cudnnBackendCreateDescriptor", DEVICEPROP_DESCRIPTOR, ctypes.byref(properties))
    call("cudnnBackendSetAttribute", properties, ATTR_DEVICE_ID, TYPE_INT32, ctypes.c_int64(1), ctypes.byref(ctypes.c_int32(0)))
    call("cudnnBackendFinalize", properties)
    size = ctypes.c_int64()
    call("cudnnBackendGetAttribute", properties, ATTR_JSON, TYPE_CHAR, ctypes.c_int64(0), ctypes.byref(size), None)
    text = ctypes.create_string_buffer(size.value)
    call("cudnnBackendGetAttribute", properties, ATTR_JSON, TYPE_CHAR, size, ctypes.byref(size), text)
    with open(sys.argv[1], "wb") as file:
        file.write(text.raw[:size.value].rstrip(b"\0"))
    print(f"{sys.argv[1]}: {size.value} bytes")


main()
