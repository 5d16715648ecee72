"""The files of a site.

directory    the site's directory: locked while the site runs, marked with its name
crash_mark   whether the last process crashed in native code, so that storage has to be checked
keeper       the thread that writes and syncs what turns want kept
store_status what a site reports about its storage
lmdb_disk    `runtime.outside.Disk` with LMDB and the keeper
"""
