; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; Function Attrs: nounwind
define ptx_kernel void @loop_reduce_fusion(ptr noalias nofree readonly align 256 captures(none) dereferenceable(262144) %0, ptr noalias nofree writeonly align 256 captures(none) dereferenceable(65536) %1) local_unnamed_addr #0 {
  %3 = addrspacecast ptr %0 to ptr addrspace(1)
  %4 = addrspacecast ptr %1 to ptr addrspace(1)
  tail call void @llvm.nvvm.griddepcontrol.wait()
  %5 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !2
  %6 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !2
  %7 = shl nuw nsw i32 %5, 7
  %8 = or disjoint i32 %7, %6
  %9 = zext nneg i32 %8 to i64
  %10 = getelementptr inbounds [4 x i8], ptr addrspace(1) %3, i64 %9
  %11 = load float, ptr addrspace(1) %10, align 4, !invariant.load !3
  %12 = fadd float %11, 0.000000e+00
  %13 = getelementptr inbounds i8, ptr addrspace(1) %10, i64 65536
  %14 = load float, ptr addrspace(1) %13, align 4, !invariant.load !3
  %15 = fadd float %12, %14
  %16 = getelementptr inbounds i8, ptr addrspace(1) %10, i64 131072
  %17 = load float, ptr addrspace(1) %16, align 4, !invariant.load !3
  %18 = fadd float %15, %17
  %19 = getelementptr inbounds i8, ptr addrspace(1) %10, i64 196608
  %20 = load float, ptr addrspace(1) %19, align 4, !invariant.load !3
  %21 = fadd float %18, %20
  %22 = getelementptr inbounds [4 x i8], ptr addrspace(1) %4, i64 %9
  store float %21, ptr addrspace(1) %22, align 4
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

attributes #0 = { nounwind "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0, !1}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 4, !"nvvm-reflect-ftz", i32 0}
!2 = !{i32 0, i32 128}
!3 = !{}
