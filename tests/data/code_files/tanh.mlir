module @__compute_module_wrapped_tanh attributes {xla.cpu_memory_region_name = "xla_cpu_emitter__tiled_emitter__hlo_opcode__fusion"} {
  func.func @wrapped_tanh(%arg0: !xla_cpu.call_frame) -> !xla_cpu.error {
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %c1024 = arith.constant 1024 : index
    %0 = xla_cpu.load %arg0, 0 : memref<64x256xf32>
    %1 = xla_cpu.load %arg0, 1 : memref<64x256xf32>
    %2 = xla_cpu.extract_workgroup_id %arg0, x
    %3 = arith.maxsi %2, %c0 : index
    %4 = arith.muli %3, %c1024 overflow<nsw, nuw> : index
    %5 = arith.minsi %4, %c1024 : index
    %6 = arith.addi %4, %c1024 overflow<nsw, nuw> : index
    %7 = arith.minsi %6, %c1024 : index
    scf.for %arg1 = %5 to %7 step %c1 {
      func.call @wrapped_tanh_impl(%0, %1, %arg1) : (memref<64x256xf32>, memref<64x256xf32>, index) -> ()
    }
    %8 = xla_cpu.success : !xla_cpu.error
    return %8 : !xla_cpu.error
  }
  func.func @wrapped_tanh_impl(%arg0: memref<64x256xf32>, %arg1: memref<64x256xf32>, %arg2: index) attributes {llvm.always_inline, llvm.linkage = #llvm.linkage<internal>, num_opaque_args = 0 : i32, xtile.tiling_info = #xtile.tiling_info<tile_count : 1024, tiles_per_workgroup : 1024>} {
    %0 = ub.poison : f32
    %c8 = arith.constant 8 : index
    %c0 = arith.constant 0 : index
    %c256 = arith.constant 256 : index
    %c64 = arith.constant 64 : index
    %c16 = arith.constant 16 : index
    %c1 = arith.constant 1 : index
    %1 = xla.apply_indexing #xla.indexing_map<"(pid_0) -> (pid_0 / 16), domain: pid_0 in [0, 1023]">(%arg2)
    %2 = xla.apply_indexing #xla.indexing_map<"(pid_0) -> ((pid_0 mod 16) * 16), domain: pid_0 in [0, 1023]">(%arg2)
    %3 = arith.subi %c64, %1 : index
    %4 = arith.minsi %3, %c1 : index
    %5 = arith.subi %c256, %2 : index
    %6 = arith.minsi %5, %c16 : index
    %7 = arith.cmpi eq, %4, %c1 : index
    %8 = arith.cmpi eq, %6, %c16 : index
    %9 = arith.andi %7, %8 : i1
    %alloca = memref.alloca() : memref<1x16xf32>
    %alloca_0 = memref.alloca() : memref<1x16xf32>
    %10 = arith.select %9, %alloca, %alloca_0 : memref<1x16xf32>
    scf.if %9 {
      %subview = memref.subview %arg0[%1, %2] [1, 16] [1, 1] : memref<64x256xf32> to memref<1x16xf32, strided<[256, 1], offset: ?>>
      memref.copy %subview, %alloca : memref<1x16xf32, strided<[256, 1], offset: ?>> to memref<1x16xf32>
    } else {
      %subview = memref.subview %arg0[%1, %2] [%4, %6] [1, 1] : memref<64x256xf32> to memref<?x?xf32, strided<[256, 1], offset: ?>>
      %subview_2 = memref.subview %alloca_0[0, 0] [%4, %6] [1, 1] : memref<1x16xf32> to memref<?x?xf32, strided<[16, 1]>>
      memref.copy %subview, %subview_2 : memref<?x?xf32, strided<[256, 1], offset: ?>> to memref<?x?xf32, strided<[16, 1]>>
    }
    %alloca_1 = memref.alloca() {alignment = 64 : i64} : memref<1x16xf32>
    scf.for %arg3 = %c0 to %c16 step %c8 {
      %11 = vector.transfer_read %10[%c0, %arg3], %0 {in_bounds = [true]} : memref<1x16xf32>, vector<8xf32>
      %12 = math.tanh %11 : vector<8xf32>
      vector.transfer_write %12, %alloca_1[%c0, %arg3] {in_bounds = [true]} : vector<8xf32>, memref<1x16xf32>
    }
    scf.if %9 {
      %subview = memref.subview %arg1[%1, %2] [1, 16] [1, 1] : memref<64x256xf32> to memref<1x16xf32, strided<[256, 1], offset: ?>>
      memref.copy %alloca_1, %subview : memref<1x16xf32> to memref<1x16xf32, strided<[256, 1], offset: ?>>
    } else {
      %subview = memref.subview %alloca_1[0, 0] [%4, %6] [1, 1] : memref<1x16xf32> to memref<?x?xf32, strided<[16, 1]>>
      %subview_2 = memref.subview %arg1[%1, %2] [%4, %6] [1, 1] : memref<64x256xf32> to memref<?x?xf32, strided<[256, 1], offset: ?>>
      memref.copy %subview, %subview_2 : memref<?x?xf32, strided<[16, 1]>> to memref<?x?xf32, strided<[256, 1], offset: ?>>
    }
    return
  }
}