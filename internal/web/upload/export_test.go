package upload

// UnpackFew is Unpack with another bound of files and folders.
var UnpackFew = unpack
