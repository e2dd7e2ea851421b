!> Tides of an estuary,
!! in metres.
module estuary
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  private

  integer, parameter :: rows(3) = [ &
    1, &
    2, 3]

  !> A tide with its moon.
  type, extends(water), public :: tide
    real :: amplitude = 1.0 !< at full moon
  contains
    procedure :: height => tide_height
    final :: drain
  end type tide

  interface height
    module procedure tide_height
  end interface height

  interface operator(+)
    module procedure add
  end interface

contains

  !> Height at a time,
  !! without wind.
  pure function tide_height(self, t) &
      result(h)
    class(tide), intent(in) :: self
    real, intent(in) :: t
    real :: h
    h = self%amplitude * inner(t)
  contains
    real function inner(x)
      real, intent(in) :: x
      inner = sin(x)
    end function inner
  end function tide_height

  elemental type(tide) function add(a, b)
    !! Both tides at once.
    type(tide), intent(in) :: a, b
    add%amplitude = a%amplitude + b%amplitude
  end function

#ifdef LOCKS
  ! Empties it.
  subroutine drain(self)
    type(tide), intent(inout) :: self
    self%amplitude = 0
  end subroutine drain
#endif

end module estuary

submodule (estuary) locks
contains
  module procedure open_lock
    print *, "open"
  end procedure open_lock
end submodule locks

program ferry
  use estuary
  call report(1.0)
contains
  subroutine report(x)
    real, intent(in) :: x
    print *, x
  end subroutine report
end program ferry
