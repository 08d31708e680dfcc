#include "checkpoints/lock_reach.h"

#include <gtest/gtest.h>

namespace dimred::checkpoints {
namespace {

// The lines of proc(5): id, parent, device, root, mount point, options, optional fields, "-", type,
// source, options of the file system.
constexpr auto mounts = R"(21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 21 0:50 / /home rw,relatime shared:2 master:3 - nfs4 server:/home rw,vers=4.2,local_lock=none
41 21 0:51 / /old rw - nfs server:/old rw,vers=3,nolock,local_lock=all
42 21 0:52 / /old/deeper rw - nfs server:/deeper rw,vers=3,local_lock=none
43 21 0:53 / /with\040space rw - fuse.sshfs host:/ rw,user_id=0
44 21 0:54 / /lustre rw - lustre mds:/fs rw,flock
45 21 0:55 / /here rw - lustre mds:/fs rw,localflock
46 21 0:56 / /twice rw - ext4 /dev/vdb rw
47 46 0:57 / /twice rw - fuse.sshfs host:/ rw
48 21 0:58 / /drive rw - fuseblk /dev/sdb1 rw
49 21 0:59 / /share rw - cifs //server/share rw,nobrl
50 21 0:60 / /gluster rw - fuse.glusterfs host:/volume rw
)";

TEST(LocalLocks, AreThoseOfTheMountThatTheFolderLiesIn) {
  EXPECT_EQ(local_locks("/srv/run", mounts), "");
  EXPECT_EQ(local_locks("/home/run", mounts), "");
  EXPECT_EQ(local_locks("/old/run", mounts), "nfs, nolock");
  EXPECT_EQ(local_locks("/older/run", mounts), "");
  EXPECT_EQ(local_locks("/old/deeper/run", mounts), "");
  EXPECT_EQ(local_locks("/with space/run", mounts), "fuse.sshfs");
  EXPECT_EQ(local_locks("/lustre/run", mounts), "");
  EXPECT_EQ(local_locks("/here", mounts), "lustre, localflock");
  EXPECT_EQ(local_locks("/twice/run", mounts), "fuse.sshfs");
  EXPECT_EQ(local_locks("/drive/run", mounts), "");
  EXPECT_EQ(local_locks("/share/../home", mounts), "");
  EXPECT_EQ(local_locks("/share/run", mounts), "cifs, nobrl");
  EXPECT_EQ(local_locks("/gluster/run", mounts), "");
}

TEST(LocalLocks, NothingIsSaidWhereNoMountIsKnown) {
  EXPECT_EQ(local_locks("/home/run", ""), "");
  EXPECT_EQ(local_locks("/home/run", "cut off\n40 21 0:50 /\n"), "");
}

}  // namespace
}  // namespace dimred::checkpoints
